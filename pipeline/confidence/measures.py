"""Measure how well a confidence separates correct from wrong captions: numbers, lines to print, a figure.

The most confident captions are kept, the others are withheld. Coverage is the share of captions that are
kept. Risk is the share of wrong captions among the kept ones. P: captions.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from pipeline.confidence.collecting import Collected
from pipeline.reporting.figures import HUES
from pipeline.statistics.bootstrap import area_under_roc

BINS = 10  # bins of the calibration error; each has the same number of captions
COVERAGES = (0.5, 0.8, 0.95)
RESAMPLES = 1000
Measure = Callable[[np.ndarray, np.ndarray], float | None]
"""Function from the confidence of P captions and their correctness, (P,) each, to a number."""


def calibration_error(probabilities: np.ndarray, correct: np.ndarray) -> float:
    """Return the expected calibration error, in bins of equal size (Guo et al., 2017, Eq. 3)."""
    bins = np.array_split(np.argsort(probabilities, kind="stable"), BINS)
    gaps = [len(rows) * abs(probabilities[rows].mean() - correct[rows].mean()) for rows in bins if len(rows)]
    return float(sum(gaps) / len(probabilities))


def at_coverage(confidence: np.ndarray, correct: np.ndarray, coverage: float) -> float:
    """Return the share of correct captions among the most confident, the fraction `coverage` of all."""
    count = max(1, round(coverage * len(confidence)))
    return float(correct[np.argsort(-confidence, kind="stable")[:count]].mean())


def risk_coverage(confidence: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coverage (share kept) and risk (share wrong of these) for 1 to P kept captions, (P,) each."""
    wrong = ~correct[np.argsort(-confidence, kind="stable")]
    counts = np.arange(1, len(wrong) + 1)
    return counts / len(wrong), wrong.cumsum() / counts


def interval(
    measure: Measure,
    confidence: np.ndarray,
    correct: np.ndarray,
    scenes: Sequence[str],
) -> tuple[float, float, float] | None:
    """Return a measure and its 95 % interval; None if it is undefined. Inputs are (P,) each.

    The interval is a percentile bootstrap over scenes, because the pairs of a scene are not independent.
    """
    if (observed := measure(confidence, correct)) is None:
        return None
    _, scene_numbers = np.unique(np.asarray(scenes), return_inverse=True)
    members = [np.flatnonzero(scene_numbers == scene) for scene in range(scene_numbers.max() + 1)]
    random = np.random.default_rng(0)
    values = []
    for _ in range(RESAMPLES):
        drawn = np.concatenate([members[n] for n in random.integers(0, len(members), len(members))])
        values.append(measure(confidence[drawn], correct[drawn]))
    low, high = np.percentile([value for value in values if value is not None], [2.5, 97.5])
    return observed, float(low), float(high)


def measured(captions: Collected, probability: np.ndarray) -> dict[str, float | None]:
    """Return measures of how well `probability`, (P,), predicts correct captions; None where undefined.

    `_low` and `_high` end the names of the limits of 95 % intervals. Values are rounded to 4 decimal places.
    """
    correct = captions.correct
    numbers: dict[str, float | None] = {
        "pairs": float(len(correct)),
        "correct": float(correct.mean()),
        "mean_probability": float(probability.mean()),
    }

    def add(name: str, measure: Measure) -> None:
        value_and_limits = interval(measure, probability, correct, captions.scenes) or (None,)
        numbers.update(zip((name, f"{name}_low", f"{name}_high"), value_and_limits, strict=False))

    add("calibration_error", calibration_error)
    add("ranking", area_under_roc)
    numbers["ranking_log_probability"] = area_under_roc(captions.log_probability, correct)
    for coverage in COVERAGES:
        add(f"correct_at_{100 * coverage:.0f}", partial(at_coverage, coverage=coverage))
    return {name: None if value is None else round(value, 4) for name, value in numbers.items()}


def lines(name: str, numbers: dict[str, float | None]) -> list[str]:
    """Return lines to print on the set `name` of captions; `numbers` are from `measured`."""

    def printed(key: str) -> str:
        value, low, high = (numbers.get(f"{key}{end}") for end in ("", "_low", "_high"))
        interval = f" ({low:.3f} to {high:.3f})" if low is not None and high is not None else ""
        return ("unknown" if value is None else f"{value:.3f}") + interval

    return [
        f"{name}: {numbers['pairs']:.0f} pairs, {printed('correct')} correct, "
        f"mean probability {printed('mean_probability')}",
        f"  calibration error         {printed('calibration_error')}",
        f"  area under the ROC curve  {printed('ranking')}",
        f"  ROC area, log-probability {printed('ranking_log_probability')}",
        *(
            f"  correct at {100 * coverage:.0f} % coverage    {printed(f'correct_at_{100 * coverage:.0f}')}"
            for coverage in COVERAGES
        ),
    ]


def drawing(parts: dict[str, tuple[Collected, np.ndarray]]) -> Callable[[Axes], None]:
    """Return a function that draws risk against coverage by confidence and by log-probability.

    `parts`: name of a set of captions -> the captions, and their probabilities of being correct
    """

    def draw(axes: Axes) -> None:
        for hue, (name, (captions, probability)) in zip(HUES, parts.items(), strict=False):
            for style, label, confidence in (
                ("-", f"{name}: confidence", probability),
                (":", f"{name}: log-probability", captions.log_probability),
            ):
                coverage, risk = risk_coverage(confidence, captions.correct)
                enough = coverage >= 0.02  # the first captions are too few for a share
                axes.plot(100 * coverage[enough], 100 * risk[enough], style, color=hue, label=label)
        axes.set_xlabel("captions kept, the most confident first, percent")
        axes.set_ylabel("wrong captions among them, percent")
        axes.set_xlim(0, 100)
        axes.set_ylim(bottom=0)
        axes.legend()

    return draw
