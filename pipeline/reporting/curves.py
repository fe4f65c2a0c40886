"""Learning curves: the validation's CIDEr-D and every training loss, a line for each run; earlier phases'."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pipeline.reporting.dataset_results import Results
from pipeline.reporting.svg import QUIET, Panel, Style, styles, svg

MARKED = 20  # points at most, of a line whose points are marked
TERMS = {  # the papers' words
    "cap": "caption",
    "cv": "view-invariance",
    "cbr": "backward reasoning",
    "dirl": "channel correlation",
    "ccr": "cross-modal contrast",
    "judge": "distractor judging",
}
VALIDATED = {  # in every validation, as fractions; what is true where scenes are known
    "true/change": "Validation, true of changes, percent",
    "true": "Validation, true of all pairs, percent",
    "CIDEr-D": "Validation CIDEr-D × 100",
}
MEASURES = {"judge_accuracy": "Accuracy of distractor judging, in training"}  # logged beside the losses

# of a pre-training, in the order of their panels
TASKS = {"mlm": "masked words", "mvcl": "masked cells", "fda": "negatives", "class_pairs": "pairs of classes"}
FOUND = {  # in its validations: what it is, what chance gives, which end is the better one
    "mlm_accuracy": ("masked words named", None, max),
    "mvcl_rank": ("rank of the masked cell, 0 the first", 1 / 2, min),
    "fda_accuracy_change": ("own caption found, change pairs", 1 / 7, max),
    "fda_accuracy_no_change": ("own caption found, no-change pairs", 1 / 7, max),
    "class_accuracy": ("class named", 1 / 555, max),
    "same_accuracy": ("one class or two", 1 / 2, max),
}


@dataclass(frozen=True)
class Line:
    """One run's curve."""

    style: Style
    seed: int
    x: list[float]
    y: list[float]


def panels(results: Results) -> list[Panel]:
    """A panel of the validation's CIDEr-D x 100, and one for each training loss that some model has.

    Cells whose weights were imported have no curves, and stand in none.
    """
    own = styles(results.cells)
    found = [(title, _validated(results, column), max) for column, title in VALIDATED.items()]
    for term in dict.fromkeys(name for cell in results.cells for name in cell.losses if name != "iteration"):
        losses = [
            Line(own[cell.model], cell.seed, cell.losses["iteration"], cell.losses[term])
            for cell in results.cells
            if term in cell.losses
        ]
        title = MEASURES.get(term, f"Training loss: {TERMS.get(term, term)}")
        found.append((title, losses, max if term in MEASURES else min))
    drawn = [(title, [line for line in lines if line.y], best) for title, lines, best in found]
    return [_panel(title, results.dataset, lines, best) for title, lines, best in drawn if lines]


def _validated(results: Results, column: str) -> list[Line]:
    """The validations' column x 100 of each run that has it."""
    own = styles(results.cells)
    return [
        Line(own[cell.model], cell.seed, curve["iteration"], [100 * share for share in curve[column]])
        for cell in results.cells
        for curve in [cell.validation]
        if column in curve
    ]


def pretraining(results: Results) -> list[Panel]:
    """Of each phase of pre-training a panel for every task's training loss, and what validations measured.

    A dotted line is what chance gives.
    """
    found: list[tuple[str, list[Line], Callable[[list[float]], float], float | None]] = []
    for phase, where in (("images", "on CUB’s images, "), ("pretraining", "")):
        for term, name in TASKS.items():
            title = f"Training loss, {where}{name}"
            found.append((title, _lines(results, phase, "losses", term), min, None))
        for measure, (name, chance, best) in FOUND.items():
            title = f"Validation, {where}{name}"
            found.append((title, _lines(results, phase, "validation", measure), best, chance))
    return [
        _panel(title, results.dataset, lines, best, chance) for title, lines, best, chance in found if lines
    ]


def adaptation(results: Results) -> list[Panel]:
    """Of the phase in which sentences find their pairs: its training loss, and R@1 on validation pairs."""
    loss = _lines(results, "adaptation", "losses", "retrieval")
    found = _lines(results, "adaptation", "validation", "R@1")
    panels = [_panel("Training loss, retrieval", results.dataset, loss, min)] if loss else []
    if found:
        title = f"Validation, R@1: a sentence’s own pair found first of {results.searched}"
        panels.append(_panel(title, results.dataset, found, max, 1 / results.searched))
    return panels


def _lines(results: Results, phase: str, kind: str, column: str) -> list[Line]:
    """The column's curve of each run that has it, without what no iteration measured."""
    own, found = styles(results.cells), []
    for cell in results.cells:
        for earlier in cell.earlier:
            curve = getattr(earlier, kind)
            if earlier.phase == phase and column in curve:
                points = zip(curve["iteration"], curve[column], strict=True)
                if known := [(x, y) for x, y in points if not math.isnan(y)]:
                    found.append(Line(own[cell.model], cell.seed, *map(list, zip(*known, strict=True))))
    return found


def _panel(
    title: str,
    dataset: str,
    lines: list[Line],
    best: Callable[[list[float]], float],
    chance: float | None = None,
) -> Panel:
    ends = "; ".join(
        f"{line.style.model}, seed {line.seed}: {best.__name__}imum {best(line.y):.2f}, last {line.y[-1]:.2f}"
        for line in lines
    )
    drawn = svg(lambda axes: _draw(axes, lines, chance), salt=f"{dataset} {title}")
    level = "" if chance is None else f" Chance: {chance:.3g}."
    return Panel(title, f"{title} over iterations. {ends}.{level}", drawn)


def _draw(axes: Axes, lines: list[Line], chance: float | None = None) -> None:
    if chance is not None:
        axes.axhline(chance, color=QUIET, dashes=(1, 2))
    for line in lines:
        axes.plot(
            line.x,
            line.y,
            color=line.style.drawn,
            dashes=line.style.dashes or (None, None),
            marker="o" if len(line.x) <= MARKED else None,
        )
    axes.set_xlabel("iteration")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(6))
