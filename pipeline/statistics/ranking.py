"""Measure how well numbers separate two classes."""

import numpy as np
from scipy.stats import rankdata


def area_under_roc(values: np.ndarray, positive: np.ndarray) -> float | None:
    """Return how often a positive item has a higher value than a negative one; a tie counts half.

    This is the area under the ROC curve. None if all items are positive, or all are negative.
    """
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if not positives or not negatives:
        return None
    ranks = rankdata(values)[positive].sum()
    return float((ranks - positives * (positives + 1) / 2) / (positives * negatives))
