"""Measure a confidence on judged captions: as numbers, as lines to print, and as a figure."""

from collections.abc import Callable
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from pipeline.confidence import measures
from pipeline.confidence.collecting import Collected
from pipeline.confidence.measures import COVERAGES, Measured
from pipeline.datasets.schema import NO_CHANGE
from pipeline.reporting.figures import HUES


def measured(found: Collected, probability: np.ndarray) -> dict[str, float | None]:
    """Return a dictionary: name of a measure -> value, rounded to 4 decimal places.

    Some measures are over all captions, the others over the captions that are kept at each of COVERAGES.
    """
    right, scenes = found.correct, found.scenes
    error = measures.interval(measures.calibration_error, probability, right, scenes)
    rank = measures.interval(measures.ranking, probability, right, scenes)
    plain = measures.ranking(found.log_probability, right)
    numbers: dict[str, float | None] = {
        "pairs": float(len(right)),
        "correct": float(right.mean()),
        "mean_probability": float(probability.mean()),
        **_with_interval("calibration_error", error),
        **_with_interval("ranking", rank),
        "ranking_log_probability": plain,
    }
    for coverage in COVERAGES:
        share = partial(measures.at_coverage, coverage=coverage)
        at = measures.interval(share, probability, right, scenes)
        numbers |= _with_interval(f"correct_at_{100 * coverage:.0f}", at)
    return {name: None if value is None else round(value, 4) for name, value in numbers.items()}


def lines(name: str, numbers: dict[str, float | None]) -> list[str]:
    """Return lines to print. `name` names the set of pairs. `numbers`: name of a measure -> value."""

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


def by_kind(found: Collected, probability: np.ndarray) -> list[str]:
    """Return the lines of a table of correct captions: a row per kind of change, a column per coverage."""
    kinds = np.array([pair.change_type or "unknown" for pair in found.pairs])
    heads = ["all", *(f"{100 * each:.0f} %" for each in COVERAGES)]
    rows = [f"  {'correct (pairs kept)':<22}" + "".join(f"{head:>14}" for head in heads)]
    chosen = [np.arange(len(kinds)), *(measures.kept(probability, each) for each in COVERAGES)]
    for kind in sorted(set(kinds.tolist()), key=lambda own: (own == NO_CHANGE, own)):
        cells = [found.correct[own[kinds[own] == kind]] for own in chosen]
        texts = [f"{cell.mean():.3f} ({len(cell)})" if len(cell) else "(0)" for cell in cells]
        rows.append(
            f"  {'no change' if kind == NO_CHANGE else kind:<22}" + "".join(f"{text:>14}" for text in texts)
        )
    return rows


def drawing(parts: dict[str, tuple[Collected, np.ndarray]]) -> Callable[[Axes], None]:
    """Return a function that draws risk against coverage, for the confidence and for the log-probability.

    `parts` is a dictionary: name of a set of captions -> the captions, and their fitted probabilities.
    """

    def draw(axes: Axes) -> None:
        for hue, (name, (found, probability)) in zip(HUES, parts.items(), strict=False):
            for style, label, own in (
                ("-", f"{name}: confidence", probability),
                (":", f"{name}: log-probability", found.log_probability),
            ):
                coverage, risk = measures.risk_coverage(own, found.correct)
                shown = coverage >= 0.02  # the first captions are too few for a share
                axes.plot(100 * coverage[shown], 100 * risk[shown], style, color=hue, label=label)
        axes.set_xlabel("captions kept, the most confident first, percent")
        axes.set_ylabel("wrong captions among them, percent")
        axes.set_xlim(0, 100)
        axes.set_ylim(bottom=0)
        axes.legend()

    return draw


def _with_interval(name: str, found: Measured | None) -> dict[str, float | None]:
    if found is None:
        return {name: None}
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
