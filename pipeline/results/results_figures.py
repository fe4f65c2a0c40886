"""Figures of the results page: SVG files that are readable on light and dark pages."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from pipeline.config.params import Params
from pipeline.io.outputs import write_text
from pipeline.reporting.figures import HUES, RULE, WIDE, svg_file
from pipeline.results.false_words import NAMES, PARTS, Faults, of_group
from pipeline.results.metric_agreement import Correlation, MetricAgreement, metric_agreements
from pipeline.results.record_tables import Records
from pipeline.scoring.metric_names import TOTAL, TRUE_CHANGED, heading

SEEDS = "results-seeds.svg"
FALSE, AGREEMENT = "results-false-words.svg", "results-metric-agreement.svg"
PART_HUES = ("#999999", "#bbbbbb", *HUES[:6], *HUES[7:])  # for PARTS; gray: no change is described
GAP = 3  # empty places between two datasets
BAR = 0.2  # height of a horizontal bar in inches


def write(folder: Path, datasets: Sequence[Records], params: Params) -> list[str]:
    """Write the figures that have data. Return lines of Markdown that show them."""
    order = list(params.model)
    groups = [[*records.models.groups] for records in datasets if len(records.models)]
    ordered = [sorted(models, key=lambda model: order.index(model.name)) for models in groups]
    faults = [of_group(model, model.dataset * (len(ordered) > 1)) for models in ordered for model in models]
    agreements = {
        records.dataset: dataset_agreements
        for records in datasets
        if len(records) and (dataset_agreements := metric_agreements([*records.groups]))
    }
    figures: list[tuple[str, str, object, tuple[float, float], Callable[[Any, Axes], None]]] = [
        (SEEDS, "True captions of changed pairs, of every seed", ordered, WIDE, _draw_seeds),
        (FALSE, "False captions of changed pairs, by fault", faults, of_bars(len(faults)), draw_faults),
        (AGREEMENT, "Rank correlation with truth", agreements, WIDE, draw_agreement),
    ]
    lines = []
    for name, title, data, size, draw in figures:
        if data:
            write_text(folder / name, svg_file(partial(draw, data), size))
            lines.append(f"![{title}]({name})")
    return lines


def _draw_seeds(datasets: Sequence[Sequence[Records]], axes: Axes) -> None:
    x, ticks = 0, []
    for groups, hue in zip(datasets, HUES, strict=False):
        centre, transform = x + (len(groups) - 1) / 2, axes.get_xaxis_transform()
        axes.annotate(groups[0].dataset, (centre, 1.02), xycoords=transform, ha="center")
        for group in groups:
            values = [100 * value for value in group.values((TOTAL, TRUE_CHANGED))]
            axes.plot([x] * len(values), values, "o", color=hue, alpha=0.7, markersize=5)
            ticks.append((x, group.name))
            x += 1
        x += GAP
    axes.set_xticks([x for x, _ in ticks], [model for _, model in ticks], rotation=90, fontsize=6)
    axes.set_ylabel("true captions of changed pairs, percent")


def of_bars(number: int) -> tuple[float, float]:
    return WIDE[0], 1.2 + BAR * number


def draw_faults(model_faults: Sequence[Faults], axes: Axes) -> None:
    """Draw a bar per model: percent of false captions of changed pairs, a segment per kind (Faults.split)."""
    left = np.zeros(len(model_faults))
    for part, hue in zip(PARTS, PART_HUES, strict=True):
        shares = np.array([100 * faults.split(part) for faults in model_faults])
        axes.barh(range(len(model_faults)), shares, left=left, height=0.75, color=hue, label=NAMES[part])
        left += shares
    axes.set_yticks(range(len(model_faults)), [faults.name for faults in model_faults])
    axes.invert_yaxis()
    axes.set_xlabel("false captions of changed pairs, percent, by fault")
    below = min(0.25, 0.6 / (BAR * len(model_faults)))  # share of the height; 0.6 inches for many bars
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -below), ncols=5, handlelength=1)


def draw_agreement(datasets: Mapping[str, Sequence[MetricAgreement]], axes: Axes) -> None:
    """Draw each metric's rank correlation with truth: over runs (filled dots), over captions (open dots)."""
    metrics = list(
        dict.fromkeys(agreement.metric for agreements in datasets.values() for agreement in agreements)
    )
    for index, (dataset, agreements) in enumerate(datasets.items()):
        hue, height = HUES[index], 0.22 * (index - (len(datasets) - 1) / 2)
        for agreement in agreements:
            y = metrics.index(agreement.metric) + height
            _draw_correlation(axes, agreement.runs, y - 0.08, hue, "full")
            _draw_correlation(axes, agreement.pairs, y + 0.08, hue, "none")
        axes.plot([], [], "o", color=hue, label=f"{dataset}: over runs")
        axes.plot([], [], "o", color=hue, fillstyle="none", label=f"{dataset}: over a run's captions")
    axes.axvline(0, color=RULE, linewidth=0.8)
    axes.axvline(1, color=RULE, linewidth=0.8, linestyle="dotted")
    axes.set_yticks(range(len(metrics)), [heading(metric) for metric in metrics])
    axes.invert_yaxis()
    axes.set_xlabel("rank correlation with truth (1: the same order; 0: unrelated)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.2), ncols=2)


def _draw_correlation(axes: Axes, correlation: Correlation | None, y: float, hue: str, fill: Any) -> None:
    if correlation and correlation.value is not None:
        axes.hlines(y, correlation.low, correlation.high, colors=hue, linewidth=1)
        axes.plot(correlation.value, y, "o", color=hue, fillstyle=fill, markersize=6)
