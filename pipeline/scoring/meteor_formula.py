"""Compute METEOR 1.5 from its 23 counts. This module needs NumPy, but not pycocoevalcap."""

import numpy as np

STATISTICS = 23
WORDS, FUNCTION, MATCHED, CHUNKS, MATCHES = slice(0, 2), slice(2, 4), slice(4, 20), 20, slice(21, 23)
# The task "rank" of English (Denkowski and Lavie 2014, table 2).
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.20, 0.60, 0.75
WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])  # exact, stem, synonym, paraphrase


def from_statistics(statistics: np.ndarray) -> np.ndarray:
    """Return METEOR (0 to 1) from the 23 counts of a caption, (..., 23), or from their sums over a corpus.

    The result equals that of METEOR's Java program to the last digit. The counts, in order:

    words: 2 counts, in the caption and in its reference
    function words: 2 counts, in the caption and in its reference
    matched words by matcher: 4 counts for each of the 4 matchers (matched content words in the caption
        and in its reference, then matched function words in the caption and in its reference)
    chunks: 1 count; 0 if the caption equals its reference
    matched words: 2 counts, in the caption and in its reference
    """
    stats = np.asarray(statistics, dtype=np.float64)
    words, function = stats[..., WORDS], stats[..., FUNCTION]  # (..., caption/reference)
    # (..., matcher, content/function, caption/reference)
    matched = stats[..., MATCHED].reshape(*stats.shape[:-1], 4, 2, 2)
    terms = matched * WEIGHTS[:, None, None] * np.array([DELTA, 1 - DELTA])[:, None]
    weighted = np.cumsum(terms.reshape(*stats.shape[:-1], 8, 2), -2)[..., -1, :]  # sums in the jar's order
    share = _ratio(weighted, DELTA * (words - function) + (1 - DELTA) * function)
    precision, recall = share[..., 0], share[..., 1]
    mean = _ratio(np.where(share.all(-1), 1.0, 0.0), _ratio(1 - ALPHA, precision) + _ratio(ALPHA, recall))
    fragmentation = _ratio(stats[..., CHUNKS], stats[..., MATCHES].mean(-1))
    # Python's ** gives the jar's value; numpy's may differ in the last bit
    power = np.array([value**BETA for value in fragmentation.ravel().tolist()]).reshape(fragmentation.shape)
    return mean * (1 - GAMMA * power)


def _ratio(numerator: np.ndarray | float, denominator: np.ndarray) -> np.ndarray:
    """Return the ratio of two arrays; 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(denominator), where=denominator != 0)
