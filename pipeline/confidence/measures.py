"""Measure how well a confidence separates correct from wrong captions: numbers, lines to print, a figure.

The most confident captions are kept, the others are withheld. Coverage is the share of captions that are
kept. Risk is the share of wrong captions among the kept ones. P: captions.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import rankdata

from pipeline.confidence.collecting import Collected
from pipeline.reporting.figures import HUES

BINS = 10  # bins of the calibration error; each has the same number of captions
COVERAGES = (0.5, 0.8, 0.95)
RESAMPLES = 1000


def calibration_error(probabilities: np.ndarray, correct: np.ndarray) -> float:
    """Expected calibration error over bins of equally many captions (Guo et al., 2017, Eq. 3)."""
    bins = np.array_split(np.argsort(probabilities, kind="stable"), BINS)
    gaps = [len(own) * abs(probabilities[own].mean() - correct[own].mean()) for own in bins if len(own)]
    return float(sum(gaps) / len(probabilities))


def ranking(confidence: np.ndarray, correct: np.ndarray) -> float | None:
    """Area under the ROC curve; None if all captions are correct, or all are wrong."""
    right = int(correct.sum())
    wrong = len(correct) - right
    if not right or not wrong:
        return None
    ranks = rankdata(confidence)[correct].sum()
    return float((ranks - right * (right + 1) / 2) / (right * wrong))


def at_coverage(confidence: np.ndarray, correct: np.ndarray, coverage: float) -> float:
    """Return the share of correct captions among the kept ones.

    The most confident captions are kept: the fraction `coverage` of all captions, but at least one.
    """
    count = max(1, round(coverage * len(confidence)))
    return float(correct[np.argsort(-confidence, kind="stable")[:count]].mean())


def risk_coverage(confidence: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coverage and risk, (captions,) each. Entry n: the n + 1 most confident captions are kept."""
    wrong = ~correct[np.argsort(-confidence, kind="stable")]
    number = np.arange(1, len(wrong) + 1)
    return number / len(wrong), wrong.cumsum() / number


def interval(
    measure: Callable[[np.ndarray, np.ndarray], float | None],
    confidence: np.ndarray,
    correct: np.ndarray,
    scenes: Sequence[str],
) -> tuple[float, float, float] | None:
    """Return a measure and the ends of its 95 % interval; None if the measure is undefined.

    The interval is a percentile bootstrap over scenes, because the pairs of a scene are not independent.
    """
    if (value := measure(confidence, correct)) is None:
        return None
    _, number = np.unique(np.asarray(scenes), return_inverse=True)
    members = [np.flatnonzero(number == scene) for scene in range(number.max() + 1)]
    random = np.random.default_rng(0)
    drawn = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([members[n] for n in random.integers(0, len(members), len(members))])
        drawn.append(measure(confidence[rows], correct[rows]))
    known = [each for each in drawn if each is not None]
    low, high = np.percentile(known, [2.5, 97.5])
    return value, float(low), float(high)


def measured(found: Collected, probability: np.ndarray) -> dict[str, float | None]:
    """Return measure -> value, rounded to 4 decimal places; None if the measure is undefined.

    The names of a measure's 95 % limits end in `_low` and `_high`.
    """
    right = found.correct
    numbers: dict[str, float | None] = {
        "pairs": float(len(right)),
        "correct": float(right.mean()),
        "mean_probability": float(probability.mean()),
    }

    def add(name: str, measure: Callable[[np.ndarray, np.ndarray], float | None]) -> None:
        values = interval(measure, probability, right, found.scenes) or (None,)
        numbers.update(zip((name, f"{name}_low", f"{name}_high"), values, strict=False))

    add("calibration_error", calibration_error)
    add("ranking", ranking)
    numbers["ranking_log_probability"] = ranking(found.log_probability, right)
    for each in COVERAGES:
        add(f"correct_at_{100 * each:.0f}", partial(at_coverage, coverage=each))
    return {name: None if value is None else round(value, 4) for name, value in numbers.items()}


def lines(name: str, numbers: dict[str, float | None]) -> list[str]:
    """Return lines to print about the captions `name`. `numbers` are the measures from `measured`."""

    def said(key: str) -> str:
        value, low, high = (numbers.get(f"{key}{end}") for end in ("", "_low", "_high"))
        interval = f" ({low:.3f} to {high:.3f})" if low is not None and high is not None else ""
        return ("unknown" if value is None else f"{value:.3f}") + interval

    return [
        f"{name}: {numbers['pairs']:.0f} pairs, {said('correct')} correct, "
        f"mean probability {said('mean_probability')}",
        f"  calibration error         {said('calibration_error')}",
        f"  area under the ROC curve  {said('ranking')}",
        f"  ROC area, log-probability {said('ranking_log_probability')}",
        *(
            f"  correct at {100 * each:.0f} % coverage    {said(f'correct_at_{100 * each:.0f}')}"
            for each in COVERAGES
        ),
    ]


def drawing(parts: dict[str, tuple[Collected, np.ndarray]]) -> Callable[[Axes], None]:
    """Return a function that draws risk against coverage, for the confidence and for the log-probability.

    parts: name of a set of captions -> the captions, and their probabilities
    """

    def draw(axes: Axes) -> None:
        for hue, (name, (found, probability)) in zip(HUES, parts.items(), strict=False):
            for style, label, own in (
                ("-", f"{name}: confidence", probability),
                (":", f"{name}: log-probability", found.log_probability),
            ):
                coverage, risk = risk_coverage(own, found.correct)
                shown = coverage >= 0.02  # the first captions are too few for a share
                axes.plot(100 * coverage[shown], 100 * risk[shown], style, color=hue, label=label)
        axes.set_xlabel("captions kept, the most confident first, percent")
        axes.set_ylabel("wrong captions among them, percent")
        axes.set_xlim(0, 100)
        axes.set_ylim(bottom=0)
        axes.legend()

    return draw
