"""Corpus scores from sums over pairs, as pycocoevalcap and METEOR 1.5 compute them.

Sums have any leading shape (of resamples); their last axis is what the function's first line names.
"""

from collections.abc import Callable

import numpy as np

from pipeline.scoring import metric_names as named
from pipeline.scoring.meteor_formula import from_statistics

Array = np.ndarray
# pycocoevalcap's BleuScorer.compute_score: what is added to numerators and denominators
TINY, SMALL = 1e-15, 1e-9
MILLION = 1e6


def bleu_4(sums: Array) -> Array:
    """BLEU-4 of ... x 10: matches of 1- to 4-grams, guesses of each, length, reference length."""
    matches, guesses, length, reference = sums[..., :4], sums[..., 4:8], sums[..., 8], sums[..., 9]
    precision = np.prod((matches + TINY) / (guesses + SMALL), -1) ** 0.25
    ratio = (length + TINY) / (reference + SMALL)
    return precision * np.exp(np.minimum(1 - 1 / ratio, 0))


def mean(sums: Array) -> Array:
    """The mean of ... x 2: the values in millionths, and how many pairs have one."""
    return (
        np.divide(sums[..., 0], sums[..., 1], np.full(sums.shape[:-1], np.nan), where=sums[..., 1] > 0)
        / MILLION
    )


SUMMED: dict[str, Callable[[Array], Array]] = {
    named.TRUE_CHANGES: mean,  # of the pairs with a change
    named.TRUE: mean,
    named.FITS: mean,
    named.AGREES_CHANGES: mean,  # of the pairs with a change
    named.AGREES: mean,
    named.BLEU_4: bleu_4,
    named.METEOR: from_statistics,
    named.ROUGE_L: mean,
    named.CIDER: mean,
    named.SPICE: mean,
    named.ACCURACY: mean,
    "text_to_pair": mean,  # R@1 of a pair's sentences
    "pair_to_text": mean,  # R@1 of a pair
}
"""A corpus score of sums over pairs, ... x numbers -> ..., a fraction; NaN where no pair has a value."""
