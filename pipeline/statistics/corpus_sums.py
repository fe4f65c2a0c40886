"""Corpus scores, as of pycocoevalcap and METEOR 1.5, from sums over pairs, (..., numbers per pair)."""

from collections.abc import Callable

import numpy as np

from pipeline.scoring import metric_names as named
from pipeline.scoring.meteor_formula import from_statistics
from pipeline.scoring.metrics import SMALL, TINY

Array = np.ndarray
MILLION = 1e6


def bleu_4(sums: Array) -> Array:
    """Return BLEU-4 from sums (..., 10): matched n-grams (4), all n-grams (4), length, reference length."""
    matches, guesses, length, reference = sums[..., :4], sums[..., 4:8], sums[..., 8], sums[..., 9]
    precision = np.prod((matches + TINY) / (guesses + SMALL), -1) ** 0.25
    ratio = (length + TINY) / (reference + SMALL)
    return precision * np.exp(np.minimum(1 - 1 / ratio, 0))


def mean(sums: Array) -> Array:
    """Return the mean from sums (..., 2): the sum of the values in millionths, and the number of values."""
    means = np.full(sums.shape[:-1], np.nan)
    return np.divide(sums[..., 0], sums[..., 1], means, where=sums[..., 1] > 0) / MILLION


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
}
"""Metric -> function from sums (..., numbers) to scores (...,), as fractions; NaN if no pair has a value."""
