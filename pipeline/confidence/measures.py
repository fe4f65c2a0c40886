"""Measures of a confidence: calibration error, risk at each coverage, and ranking.

The most confident captions are kept, the others are withheld. Coverage is the share of captions that are
kept. Risk is the share of wrong captions among the kept ones. Intervals are percentile bootstraps over
scenes, because the pairs of a scene are not independent. P: captions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

BINS = 10  # bins of the calibration error; each has the same number of captions
COVERAGES = (0.5, 0.8, 0.95)
RESAMPLES = 1000


@dataclass(frozen=True)
class Measured:
    """A measure with its 95 % interval."""

    value: float
    low: float
    high: float


def calibration_error(probabilities: np.ndarray, correct: np.ndarray) -> float:
    """Return the expected calibration error (Guo et al., 2017, Eq. 3).

    It is computed over BINS bins of equally many captions.
    """
    bins = np.array_split(np.argsort(probabilities, kind="stable"), BINS)
    gaps = [len(own) * abs(probabilities[own].mean() - correct[own].mean()) for own in bins if len(own)]
    return float(sum(gaps) / len(probabilities))


def ranking(confidence: np.ndarray, correct: np.ndarray) -> float | None:
    """Return the area under the ROC curve; None if all captions are correct, or all are wrong.

    The area is the probability that a correct caption ranks above a wrong caption. A tie counts as 1/2.
    """
    right = int(correct.sum())
    wrong = len(correct) - right
    if not right or not wrong:
        return None
    ranks = rankdata(confidence)[correct].sum()
    return float((ranks - right * (right + 1) / 2) / (right * wrong))


def kept(confidence: np.ndarray, coverage: float) -> np.ndarray:
    """Return the positions of the captions that are kept at this coverage. At least one is kept."""
    count = max(1, round(coverage * len(confidence)))
    return np.argsort(-confidence, kind="stable")[:count]


def at_coverage(confidence: np.ndarray, correct: np.ndarray, coverage: float) -> float:
    """Return the share of correct captions among the captions that are kept at this coverage."""
    return float(correct[kept(confidence, coverage)].mean())


def risk_coverage(confidence: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays (P,): coverage and risk. Entry n is for keeping the n + 1 most confident captions."""
    wrong = ~correct[np.argsort(-confidence, kind="stable")]
    number = np.arange(1, len(wrong) + 1)
    return number / len(wrong), wrong.cumsum() / number


def interval(
    measure: Callable[[np.ndarray, np.ndarray], float | None],
    confidence: np.ndarray,
    correct: np.ndarray,
    scenes: Sequence[str],
    seed: int = 0,
) -> Measured | None:
    """Compute a measure and its bootstrap interval over scenes; None if the measure is undefined.

    `measure` is a function of confidence and correctness, (P,) each.
    """
    if (value := measure(confidence, correct)) is None:
        return None
    _, number = np.unique(np.asarray(scenes), return_inverse=True)
    members = [np.flatnonzero(number == scene) for scene in range(number.max() + 1)]
    random = np.random.default_rng(seed)
    drawn = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([members[n] for n in random.integers(0, len(members), len(members))])
        drawn.append(measure(confidence[rows], correct[rows]))
    known = [each for each in drawn if each is not None]
    low, high = np.percentile(known, [2.5, 97.5])
    return Measured(value, float(low), float(high))
