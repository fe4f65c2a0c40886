"""Corpus scores from sums over pairs, as pycocoevalcap and METEOR 1.5 compute them.

Sums have any leading shape (of resamples); their last axis is what the function's first line names.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
# pycocoevalcap's BleuScorer.compute_score: what is added to numerators and denominators
TINY, SMALL = 1e-15, 1e-9
# METEOR 1.5's parameters for English, as the jar takes them by itself
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
STAGES = np.array([1.0, 0.6, 0.8, 0.6])  # weights of exact, stem, synonym and paraphrase matches
CHUNKS = 20  # the place of the chunks in a statistics line
MILLION = 1e6


@dataclass(frozen=True)
class Metric:
    """A corpus score as a function of sums over pairs."""

    width: int  # numbers that are summed
    score: Callable[[Array], Array]  # ... x width -> ..., a fraction; NaN where no pair has a value


def bleu_4(sums: Array) -> Array:
    """BLEU-4 of ... x 10: matches of 1- to 4-grams, guesses of each, length, reference length."""
    matches, guesses, length, reference = sums[..., :4], sums[..., 4:8], sums[..., 8], sums[..., 9]
    precision = np.prod((matches + TINY) / (guesses + SMALL), -1) ** 0.25
    ratio = (length + TINY) / (reference + SMALL)
    return precision * np.exp(np.minimum(1 - 1 / ratio, 0))


def meteor(sums: Array) -> Array:
    """METEOR of ... x 23, sums of the jar's statistics lines after `without_perfect_chunks`.

    A line holds the words of caption and reference, the function words of both; for each of four stages
    the matched content words of both, then the matched function words of both; the chunks; and all
    matched words of both. Denkowski and Lavie (2014), section 2; checked against the jar's own EVAL.
    """
    words, function = sums[..., 0:2], sums[..., 2:4]  # ... x (caption, reference)
    stages = sums[..., 4:CHUNKS].reshape(*sums.shape[:-1], 4, 2, 2)  # stage x (content, function) x side
    matched = np.einsum("...skc,s,k->...c", stages, STAGES, np.array([DELTA, 1 - DELTA]))
    shares = _ratio(matched, DELTA * (words - function) + (1 - DELTA) * function)
    precision, recall = shares[..., 0], shares[..., 1]
    mean = _ratio(precision * recall, ALPHA * precision + (1 - ALPHA) * recall)
    fragmentation = _ratio(sums[..., CHUNKS], sums[..., CHUNKS + 1 :].mean(-1))
    return mean * (1 - GAMMA * fragmentation**BETA)


def without_perfect_chunks(lines: Array) -> Array:
    """... x 23 statistics lines: a caption that matches its reference whole, in one chunk, counts none.

    The jar does so before it sums, and so a perfect caption has no penalty.
    """
    perfect = (
        (lines[..., CHUNKS + 1] == lines[..., 0])
        & (lines[..., CHUNKS + 2] == lines[..., 1])
        & (lines[..., CHUNKS] == 1)
    )
    found = lines.copy()
    found[..., CHUNKS] -= perfect
    return found


def mean(sums: Array) -> Array:
    """The mean of ... x 2: the values in millionths, and how many pairs have one."""
    return (
        np.divide(sums[..., 0], sums[..., 1], np.full(sums.shape[:-1], np.nan), where=sums[..., 1] > 0)
        / MILLION
    )


def _ratio(numerator: Array, denominator: Array) -> Array:
    """The quotient, 0 where nothing is divided by nothing."""
    return np.divide(numerator, denominator, np.zeros_like(numerator), where=denominator > 0)


METRICS = {
    "BLEU-4": Metric(10, bleu_4),
    "METEOR": Metric(23, meteor),
    "ROUGE-L": Metric(2, mean),
    "CIDEr-D": Metric(2, mean),
    "SPICE": Metric(2, mean),
    "change_accuracy": Metric(2, mean),
}
