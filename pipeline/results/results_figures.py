"""The figures of the page of results, as SVG files that are readable on a light and on a dark page."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from pipeline.config.params import Params
from pipeline.io.outputs import check_file, write_text
from pipeline.reporting import figures
from pipeline.reporting.figures import HUES, RULE, WIDE, Tradeoff, draw_tradeoffs, svg_file
from pipeline.results.false_words import NAMES, PARTS, Faults, of_group
from pipeline.results.judges import Judge, judges
from pipeline.results.record_comparisons import Group
from pipeline.scoring.metric_names import HEADINGS, TRUE, TRUE_CHANGES
from pipeline.scoring.subsets import QUARTILES

if TYPE_CHECKING:
    from matplotlib.typing import FillStyleType

SEEDS, VIEWPOINT, TRADEOFFS = "results-seeds.svg", "results-viewpoint.svg", "results-tradeoffs.svg"
FALSE, JUDGES = "results-false-words.svg", "results-judges.svg"
FILES = (SEEDS, VIEWPOINT, TRADEOFFS, FALSE, JUDGES)
WEIGHTS = ("lambda_cv", "lambda_cbr", "lambda_dirl", "lambda_ccr")
WITHOUT = {  # a model and its term -> the same model without the term
    ("scorer", "lambda_cv"): "rr",
    ("rr_cbr", "lambda_cbr"): "rr",
    ("scorer_cbr", "lambda_cbr"): "scorer",
    ("dirl", "lambda_dirl"): "transformer",
    ("dirl_ccr", "lambda_dirl"): "ccr",
    ("ccr", "lambda_ccr"): "transformer",
    ("dirl_ccr", "lambda_ccr"): "dirl",
}
PART_HUES = ("#999999", "#bbbbbb", *HUES[:6], *HUES[7:])  # PARTS: gray where nothing of the change is said
FILLS: "dict[FillStyleType, str]" = {"full": "full marks", "none": "open", "left": "half"}  # a dataset each
GAP = 3  # models' places between two datasets
PERCENT = f"{HEADINGS[TRUE_CHANGES]}, percent"
BAR = 0.2  # inches a lying bar takes
Looks = Mapping[str, dict[str, Any]]
Curve = list[tuple[float, Group]]
"""Groups of one model that differ in the weight of one loss term alone, by that weight (0: without it)."""


def write(folder: Path, datasets: Sequence[Sequence[Group]], params: Params) -> list[str]:
    """Write the figures beside the page, and remove those that nothing is left of; as lines of Markdown."""
    plain = [[group for group in groups if not group.changes] for groups in datasets]
    order = list(params.model)
    shown = [sorted(groups, key=lambda group: order.index(group.model)) for groups in plain if groups]
    looks = figures.looks(order)
    curves = tradeoffs([group for groups in datasets for group in groups], params)
    faults = [of_group(g, g.dataset * (len(shown) > 1)) for groups in shown for g in groups]
    judged = {groups[0].dataset: found for groups in datasets if groups and (found := judges(groups))}
    every: dict[str, tuple[str, Callable[[Axes], None] | None]] = {
        SEEDS: (
            "What is true of changes, of every seed",
            (lambda axes: _seeds(axes, shown, looks)) if shown else None,
        ),
        VIEWPOINT: (
            "What is true of changes against the overlap of the two views",
            (lambda axes: _viewpoint(axes, shown, looks)) if shown else None,
        ),
        FALSE: (
            "What of the captions of changes is false",
            (lambda axes: draw_faults(axes, faults)) if faults else None,
        ),
        JUDGES: (
            "How well each metric ranks as truth does",
            (lambda axes: draw_judges(axes, judged)) if judged else None,
        ),
        TRADEOFFS: (
            "What is true of changes against a loss term's weight",
            (lambda axes: _tradeoffs(axes, curves)) if curves else None,
        ),
    }
    for name, (_, draw) in every.items():
        if draw:
            write_text(folder / name, svg_file(draw, of_bars(len(faults)) if name == FALSE else figures.WIDE))
        else:
            check_file(folder / name)
            (folder / name).unlink(missing_ok=True)
    return [f"![{title}]({name})" for name, (title, draw) in every.items() if draw]


def _seeds(axes: Axes, datasets: Sequence[Sequence[Group]], looks: Looks) -> None:
    """A dot a seed: datasets beside each other, models within them."""
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
    """The size of a diagram of lying bars, in inches."""
    return WIDE[0], 1.2 + BAR * number


def draw_faults(axes: Axes, found: Sequence[Faults]) -> None:
    """A bar a model, as long as what it tells falsely of the changes, cut by what of captions is false."""
    left = np.zeros(len(found))
    for part, hue in zip(PARTS, PART_HUES, strict=True):
        shares = np.array([100 * faults.split(part) for faults in found])
        axes.barh(range(len(found)), shares, left=left, height=0.75, color=hue, label=NAMES[part])
        left += shares
    axes.set_yticks(range(len(found)), [faults.name for faults in found])
    axes.invert_yaxis()
    axes.set_xlabel("changes told falsely, percent: by what of the caption is false")
    below = min(0.25, 0.6 / (BAR * len(found)))  # of the bars' height: 0.6 inches, where there are many
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -below), ncols=5, handlelength=1)


def draw_judges(axes: Axes, datasets: Mapping[str, Sequence[Judge]]) -> None:
    """A line a metric: its rank correlation with truth over cells (dots), and over a cell's pairs (open)."""
    metrics = list(dict.fromkeys(judge.metric for found in datasets.values() for judge in found))
    for number, (dataset, found) in enumerate(datasets.items()):
        for judge in found:
            low = metrics.index(judge.metric) + 0.22 * (number - (len(datasets) - 1) / 2)
            for told, fill, aside in ((judge.cells, "full", -0.08), (judge.pairs, "none", 0.08)):
                if told and told.value is not None:
                    axes.hlines(low + aside, told.low, told.high, colors=HUES[number], linewidth=1)
                    axes.plot(told.value, low + aside, "o", color=HUES[number], fillstyle=fill, markersize=6)
        axes.plot([], [], "o", color=HUES[number], label=f"{dataset}: over cells")
        axes.plot(
            [], [], "o", color=HUES[number], fillstyle="none", label=f"{dataset}: over a cell's changes"
        )
    axes.axvline(0, color=RULE, linewidth=0.8)
    axes.axvline(1, color=RULE, linewidth=0.8, linestyle="dotted")
    axes.set_yticks(range(len(metrics)), [HEADINGS.get(metric, metric) for metric in metrics])
    axes.invert_yaxis()
    axes.set_xlabel("rank correlation with truth (1: ranks as truth does; 0: knows nothing of it)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.2), ncols=2)


def _viewpoint(axes: Axes, datasets: Sequence[Sequence[Group]], looks: Looks) -> None:
    """A line a model and dataset: what it says truly of changes by overlap, from the least moved view on.

    What was learnt on one dataset is no other point of what was learnt on another: their lines stay apart.
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
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3)  # beside the lines


def _by_overlap(group: Group) -> list[tuple[float, float]]:
    """Mean overlap of each quartile, and what is true of its changes; none where it has no change."""
    overlaps = group.pairs["viewpoint_iou"]
    return [
        (fmean(overlaps[place] for place in group.places(name)), 100 * group.score(name, TRUE_CHANGES).mean)
        for name in QUARTILES
        if name in group.pairs["subsets"] and group.changes_of(name)
    ]


def tradeoffs(groups: Sequence[Group], params: Params) -> dict[str, Curve]:
    """Title -> curve, where two weights or more were tried, the one of params.yaml among them.

    A curve is of the seeds that all its weights have: a mean of five would stand beside a single one.
    """
    found: dict[str, Curve] = {}
    plain = {(group.dataset, group.model): group for group in groups if not group.changes}
    for group in groups:
        for weight in WEIGHTS:
            default = params.of(group.dataset).loss.get(weight)
            asked = [group.changes.get(f"{of}loss.{weight}") for of in (f"dataset.{group.dataset}.", "")]
            value = next((one for one in asked if one is not None), None if group.changes else default)
            if value is not None and len(group.changes) < 2:
                title = f"{group.dataset}: {group.model}, {weight}"
                none = plain.get((group.dataset, WITHOUT.get((group.model, weight), "")))
                found.setdefault(title, [(0.0, none)] if none else []).append((value, group))
    tried = {title: curve for title, curve in found.items() if sum(weight > 0 for weight, _ in curve) > 1}
    return dict(_of_shared_seeds(title, curve) for title, curve in tried.items() if _shared(curve))


def _shared(curve: Curve) -> frozenset[int]:
    return frozenset.intersection(*(group.seeds for _, group in curve))


def _of_shared_seeds(title: str, curve: Curve) -> tuple[str, Curve]:
    seeds = sorted(_shared(curve))
    said = f"{title} (seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))})"
    return said, sorted(((weight, group.only(seeds)) for weight, group in curve), key=lambda point: point[0])


def _tradeoffs(axes: Axes, curves: dict[str, Curve]) -> None:
    """A line for each weight, mean and standard deviation over seeds."""
    lines = [
        Tradeoff(
            [(weight, group.score("change", TRUE)) for weight, group in curve],
            HUES[place % len(HUES)],
            label=title,
        )
        for place, (title, curve) in enumerate(curves.items())
    ]
    draw_tradeoffs(axes, lines, "weight of the loss term (0: without it)")
    axes.set_ylabel(PERCENT)
    axes.legend()
