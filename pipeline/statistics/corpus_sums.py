"""Corpus scores from sums over pairs, as pycocoevalcap and METEOR 1.5 compute them.

Sums have any leading shape (of resamples); their last axis is what the function's first line names.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipeline.scoring.meteor_formula import STATISTICS, from_statistics
from pipeline.scoring.metric_names import (
    ACCURACY,
    AGREES,
    AGREES_CHANGES,
    BLEU_4,
    CIDER,
    FITS,
    METEOR,
    ROUGE_L,
    SPICE,
    TRUE,
    TRUE_CHANGES,
)

Array = np.ndarray
# pycocoevalcap's BleuScorer.compute_score: what is added to numerators and denominators
TINY, SMALL = 1e-15, 1e-9
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


def mean(sums: Array) -> Array:
    """The mean of ... x 2: the values in millionths, and how many pairs have one."""
    return (
        np.divide(sums[..., 0], sums[..., 1], np.full(sums.shape[:-1], np.nan), where=sums[..., 1] > 0)
        / MILLION
    )


SUMMED = {
    TRUE_CHANGES: Metric(2, mean),  # of the pairs with a change
    TRUE: Metric(2, mean),
    FITS: Metric(2, mean),
    AGREES_CHANGES: Metric(2, mean),  # of the pairs with a change
    AGREES: Metric(2, mean),
    BLEU_4: Metric(10, bleu_4),
    METEOR: Metric(STATISTICS, from_statistics),
    ROUGE_L: Metric(2, mean),
    CIDER: Metric(2, mean),
    SPICE: Metric(2, mean),
    ACCURACY: Metric(2, mean),
    "text_to_pair": Metric(2, mean),  # R@1 of a pair's sentences
    "pair_to_text": Metric(2, mean),  # R@1 of a pair
}
