"""The figures of the page of results, as SVG files that are readable on a light and on a dark page."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.outputs import check_file, write_text
from pipeline.params import Params
from pipeline.scoring.subsets import QUARTILES
from pipeline.studying.record_comparisons import TRUE, TRUE_CHANGES, Group

if TYPE_CHECKING:
    from matplotlib.typing import FillStyleType, RcKeyType

LINES = ("o-", "s--")  # a model a colour, and where colours come again another line
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999999", "#ee8866", "#44bb99")
FIGURES = ("results-seeds.svg", "results-viewpoint.svg", "results-tradeoffs.svg")
WEIGHTS = ("lambda_cv", "lambda_cbr", "lambda_dirl", "lambda_ccr")
WITHOUT = {  # a model and its term -> the same model without the term
    ("scorer", "lambda_cv"): "rr",
    ("scorer_cbr", "lambda_cbr"): "scorer",
    ("dirl", "lambda_dirl"): "transformer",
    ("ccr", "lambda_ccr"): "transformer",
}
FILLS: "dict[FillStyleType, str]" = {"full": "full marks", "none": "open", "left": "half"}  # a dataset each
GREY = "#808080"
SIZE = (6.4, 3.4)  # inches
GAP = 3  # models' places between two datasets
STYLE: "dict[RcKeyType, Any]" = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9,
    "legend.frameon": False,
    "legend.labelcolor": GREY,
    "svg.fonttype": "none",
    "svg.hashsalt": "results",
    "text.color": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
}


Looks = dict[str, tuple[str, str]]
"""Of every model its colour and its line."""

Curve = list[tuple[float, Group]]
"""Groups of one model that differ in the weight of one loss term alone, by that weight (0: without it)."""


def write(folder: Path, datasets: Sequence[Sequence[Group]], params: Params) -> list[str]:
    """Write the figures beside the page, and remove those that nothing is left of; as lines of Markdown."""
    plain = [[group for group in groups if not group.changes] for groups in datasets]
    kinds = [(colour, line) for line in LINES for colour in COLOURS]
    looks = dict(zip(params.model, kinds, strict=False))
    made: dict[str, tuple[str, Callable[[Axes], None]]] = {}
    if any(plain):
        made["results-seeds.svg"] = (
            "What is true of changes, of every seed",
            lambda axes: _seeds(axes, plain, looks),
        )
        made["results-viewpoint.svg"] = (
            "What is true of changes against the overlap of the two views",
            lambda axes: _viewpoint(axes, plain, looks),
        )
    if curves := tradeoffs([group for groups in datasets for group in groups], params):
        made["results-tradeoffs.svg"] = (
            "What is true of changes against a loss term's weight",
            lambda axes: _tradeoffs(axes, curves),
        )
    for name in FIGURES:
        if name not in made:
            check_file(folder / name)
            (folder / name).unlink(missing_ok=True)
    for name, (_, draw) in made.items():
        write_text(folder / name, _svg(draw))
    return [f"![{title}]({name})\n" for name, (title, _) in made.items()]


def _seeds(axes: Axes, datasets: Sequence[Sequence[Group]], looks: Looks) -> None:
    """A dot a seed: datasets beside each other, models within them."""
    at, ticks = 0, []
    for groups in filter(None, datasets):
        first = at
        for group in sorted(groups, key=lambda group: list(looks).index(group.model)):
            colour, line = looks[group.model]
            values = [100 * one.score("change", TRUE).mean for one in group.each()]
            axes.plot([at] * len(values), values, line[0], color=colour, alpha=0.7, markersize=5)
            ticks.append((at, group.model))
            at += 1
        middle = (first + at - 1) / 2
        axes.annotate(
            groups[0].dataset, (middle, 1.02), xycoords=axes.get_xaxis_transform(), ha="center", fontsize=9
        )
        at += GAP
    axes.set_xticks([at for at, _ in ticks], [model for _, model in ticks], rotation=90)
    axes.set_ylabel("true of changes, percent")


def _viewpoint(axes: Axes, datasets: Sequence[Sequence[Group]], looks: Looks) -> None:
    """A line a model and dataset: what it says truly of changes by overlap, from the least moved view on.

    What was learnt on one dataset is no other point of what was learnt on another: their lines stay apart.
    """
    shown = [groups for groups in datasets if groups]
    for fill, groups in zip(FILLS, shown, strict=False):
        for group in sorted(groups, key=lambda group: list(looks).index(group.model)):
            colour, line = looks[group.model]
            points = sorted(_by_overlap(group))
            axes.plot(*zip(*points, strict=True), line, color=colour, markersize=4, fillstyle=fill)
    drawn = {group.model for groups in shown for group in groups}
    for model in (model for model in looks if model in drawn):
        colour, line = looks[model]
        axes.plot([], [], line, color=colour, markersize=4, label=model)
    axes.set_title(_markers([groups[0].dataset for groups in shown]), fontsize=9)
    axes.invert_xaxis()
    axes.set_xlabel("overlap of an object's boxes in both views (mean IoU of a quartile)")
    axes.set_ylabel("true of changes, percent")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))  # beside the lines


def _by_overlap(group: Group) -> list[tuple[float, float]]:
    """Mean overlap of each quartile, and what is true of its changes; none where it has no change."""
    overlaps = group.pairs["viewpoint_iou"]
    return [
        (fmean(overlaps[place] for place in group.places(name)), 100 * group.score(name, TRUE_CHANGES).mean)
        for name in QUARTILES
        if name in group.pairs["subsets"] and group.changes_of(name)
    ]


def _markers(names: Sequence[str]) -> str:
    """Which marks are whose, where there are several datasets."""
    said = [f"{mark}: {name}" for (mark, name) in zip(FILLS.values(), names, strict=False)]
    return " · ".join(said if len(names) > 1 else names)


def tradeoffs(groups: Sequence[Group], params: Params) -> dict[str, Curve]:
    """Title -> curve, where two weights or more were tried, the one of params.yaml among them.

    A curve is of the seeds that all its weights have: a mean of five would stand beside a single one.
    """
    found: dict[str, Curve] = {}
    plain = {(group.dataset, group.model): group for group in groups if not group.changes}
    for group in groups:
        for weight in WEIGHTS:
            default = params.of(group.dataset).loss.get(weight)
            own = group.changes.get(
                f"dataset.{group.dataset}.loss.{weight}", None if group.changes else default
            )
            if own is not None and len(group.changes) < 2:
                title = f"{group.dataset}: {group.model}, {weight}"
                none = plain.get((group.dataset, WITHOUT.get((group.model, weight), "")))
                found.setdefault(title, [(0.0, none)] if none else []).append((own, group))
    tried = {title: curve for title, curve in found.items() if sum(weight > 0 for weight, _ in curve) > 1}
    return dict(_of_shared_seeds(title, curve) for title, curve in tried.items() if _shared(curve))


def _shared(curve: Curve) -> frozenset[int]:
    return frozenset.intersection(*(group.seeds for _, group in curve))


def _of_shared_seeds(title: str, curve: Curve) -> tuple[str, Curve]:
    seeds = sorted(_shared(curve))
    said = f"{title} (seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))})"
    return said, sorted(((weight, group.only(seeds)) for weight, group in curve), key=lambda point: point[0])


def _tradeoffs(axes: Axes, curves: dict[str, Curve]) -> None:
    """A line for each weight, mean and standard deviation over seeds; weights on a logarithmic axis.

    That axis has no 0: a dotted line says what the model has without the term.
    """
    for place, (title, curve) in enumerate(curves.items()):
        for group in (group for weight, group in curve if weight == 0):
            without = 100 * group.score("change", TRUE).mean
            axes.axhline(without, color=COLOURS[place % len(COLOURS)], linestyle=":", linewidth=1)
        weights = [weight for weight, _ in curve if weight > 0]
        scores = [group.score("change", TRUE) for weight, group in curve if weight > 0]
        axes.errorbar(
            weights,
            [100 * score.mean for score in scores],
            [100 * (score.sd or 0.0) for score in scores],
            fmt="o-",
            color=COLOURS[place % len(COLOURS)],
            markersize=3,
            capsize=2,
            label=title,
        )
    axes.set_xscale("log")
    axes.set_xlabel("weight of the loss term (dotted: without it)")
    axes.set_ylabel("true of changes, percent")
    axes.legend(fontsize=7)


def _svg(draw: Callable[[Axes], None]) -> str:
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=SIZE, layout="constrained")
        draw(figure.add_subplot())
        written = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(written, format="svg", transparent=True, metadata=nothing)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"
