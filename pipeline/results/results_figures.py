"""Figures of the results page: SVG files that are readable on light and dark pages."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from pipeline.config.params import Params
from pipeline.io.outputs import check_file, write_text
from pipeline.reporting import figures
from pipeline.reporting.figures import HUES, RULE, WIDE, svg_file
from pipeline.results.false_words import NAMES, PARTS, Faults, of_group
from pipeline.results.judges import Judge, judges
from pipeline.results.record_comparisons import Group
from pipeline.scoring.metric_names import HEADINGS, TRUE, TRUE_CHANGES
from pipeline.scoring.subsets import QUARTILES

if TYPE_CHECKING:
    from matplotlib.typing import FillStyleType

SEEDS, VIEWPOINT = "results-seeds.svg", "results-viewpoint.svg"
FALSE, JUDGES = "results-false-words.svg", "results-judges.svg"
FILES = (SEEDS, VIEWPOINT, FALSE, JUDGES)
PART_HUES = ("#999999", "#bbbbbb", *HUES[:6], *HUES[7:])  # for PARTS; gray: no change is described
FILLS: "dict[FillStyleType, str]" = {"full": "full marks", "none": "open", "left": "half"}  # one per dataset
GAP = 3  # empty places between two datasets
PERCENT = "true captions of changed pairs, percent"
BAR = 0.2  # height of a horizontal bar in inches
Looks = Mapping[str, dict[str, Any]]


def write(folder: Path, datasets: Sequence[Sequence[Group]], params: Params) -> list[str]:
    """Write the figures that have data, and remove the others. Return lines of Markdown that show them."""
    order = list(params.model)
    plain = [[group for group in groups if not group.changes] for groups in datasets]
    shown = [sorted(groups, key=lambda group: order.index(group.model)) for groups in plain if groups]
    looks = figures.looks(order)
    faults = [of_group(g, g.dataset * (len(shown) > 1)) for groups in shown for g in groups]
    judged = {groups[0].dataset: found for groups in datasets if groups and (found := judges(groups))}
    title = "True captions of changed pairs"
    every: dict[str, tuple[str, object, Callable[[Axes], None]]] = {
        SEEDS: (f"{title}, of every seed", shown, lambda axes: _seeds(axes, shown, looks)),
        VIEWPOINT: (f"{title}, by view overlap", shown, lambda axes: _viewpoint(axes, shown, looks)),
        FALSE: ("False captions of changed pairs, by fault", faults, lambda axes: draw_faults(axes, faults)),
        JUDGES: ("Rank correlation with truth", judged, lambda axes: draw_judges(axes, judged)),
    }
    for name, (_, data, draw) in every.items():
        if data:
            write_text(folder / name, svg_file(draw, of_bars(len(faults)) if name == FALSE else figures.WIDE))
        else:
            check_file(folder / name)
            (folder / name).unlink(missing_ok=True)
    return [f"![{title}]({name})" for name, (title, data, _) in every.items() if data]


def _seeds(axes: Axes, datasets: Sequence[Sequence[Group]], looks: Looks) -> None:
    """Draw the share of true captions of changed pairs: a dot per seed, grouped by dataset and model."""
    at, ticks = 0, []
    for groups in datasets:
        middle, above = at + (len(groups) - 1) / 2, axes.get_xaxis_transform()
        axes.annotate(groups[0].dataset, (middle, 1.02), xycoords=above, ha="center")
        for group in groups:
            values = [100 * one.score("change", TRUE).mean for one in group.each()]
            look = looks[group.model] | {"linestyle": "none"}
            axes.plot([at] * len(values), values, **look, alpha=0.7, markersize=5)
            ticks.append((at, group.model))
            at += 1
        at += GAP
    axes.set_xticks([at for at, _ in ticks], [model for _, model in ticks], rotation=90, fontsize=6)
    axes.set_ylabel(PERCENT)


def of_bars(number: int) -> tuple[float, float]:
    """Return the size of a diagram with `number` horizontal bars, in inches."""
    return WIDE[0], 1.2 + BAR * number


def draw_faults(axes: Axes, found: Sequence[Faults]) -> None:
    """Draw a bar per model: the share of false captions of changed pairs.

    A bar has a segment for each kind of false part.
    """
    left = np.zeros(len(found))
    for part, hue in zip(PARTS, PART_HUES, strict=True):
        shares = np.array([100 * faults.split(part) for faults in found])
        axes.barh(range(len(found)), shares, left=left, height=0.75, color=hue, label=NAMES[part])
        left += shares
    axes.set_yticks(range(len(found)), [faults.name for faults in found])
    axes.invert_yaxis()
    axes.set_xlabel("false captions of changed pairs, percent, by fault")
    below = min(0.25, 0.6 / (BAR * len(found)))  # share of the height; 0.6 inches for many bars
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -below), ncols=5, handlelength=1)


def draw_judges(axes: Axes, datasets: Mapping[str, Sequence[Judge]]) -> None:
    """Draw each metric's rank correlation with truth.

    A filled dot is the correlation over all runs. An open dot is the correlation over the captions of a run.
    """
    metrics = list(dict.fromkeys(judge.metric for found in datasets.values() for judge in found))
    for number, (dataset, found) in enumerate(datasets.items()):
        for judge in found:
            low = metrics.index(judge.metric) + 0.22 * (number - (len(datasets) - 1) / 2)
            for told, fill, aside in ((judge.runs, "full", -0.08), (judge.pairs, "none", 0.08)):
                if told and told.value is not None:
                    axes.hlines(low + aside, told.low, told.high, colors=HUES[number], linewidth=1)
                    axes.plot(told.value, low + aside, "o", color=HUES[number], fillstyle=fill, markersize=6)
        axes.plot([], [], "o", color=HUES[number], label=f"{dataset}: over runs")
        axes.plot(
            [], [], "o", color=HUES[number], fillstyle="none", label=f"{dataset}: over a run's captions"
        )
    axes.axvline(0, color=RULE, linewidth=0.8)
    axes.axvline(1, color=RULE, linewidth=0.8, linestyle="dotted")
    axes.set_yticks(range(len(metrics)), [HEADINGS.get(metric, metric) for metric in metrics])
    axes.invert_yaxis()
    axes.set_xlabel("rank correlation with truth (1: the same order; 0: unrelated)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.2), ncols=2)


def _viewpoint(axes: Axes, datasets: Sequence[Sequence[Group]], looks: Looks) -> None:
    """Draw a line per model and dataset: the share of true captions against view overlap.

    The largest overlap comes first. No line joins two datasets, because each dataset has its own trained
    model.
    """
    drawn = dict.fromkeys(group.model for groups in datasets for group in groups)
    for model in drawn:
        axes.plot([], [], **looks[model], markersize=4, label=model)
    for fill, groups in zip(FILLS, datasets, strict=False):
        for group in groups:
            points = sorted(_by_overlap(group))
            axes.plot(*zip(*points, strict=True), **looks[group.model], markersize=4, fillstyle=fill)
    names = [groups[0].dataset for groups in datasets]
    marks = [f"{mark}: {name}" for (mark, name) in zip(FILLS.values(), names, strict=False)]
    axes.set_title(" · ".join(marks if len(names) > 1 else names), fontsize=9)
    axes.invert_xaxis()
    axes.set_xlabel("overlap of an object's boxes in both views (mean IoU of a quartile)")
    axes.set_ylabel(PERCENT)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3)  # right of the lines


def _by_overlap(group: Group) -> list[tuple[float, float]]:
    """Return (mean overlap, true captions in percent) for each quartile that has changed pairs."""
    overlaps = group.pairs["viewpoint_iou"]
    return [
        (fmean(overlaps[place] for place in group.places(name)), 100 * group.score(name, TRUE_CHANGES).mean)
        for name in QUARTILES
        if name in group.pairs["subsets"] and group.changes_of(name)
    ]
