"""Learning curves: the validation's CIDEr-D and every training loss, a line for each run."""

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pipeline.reporting.dataset_results import Results
from pipeline.reporting.svg import Panel, Style, styles, svg

MARKED = 20  # points at most, of a line whose points are marked
TERMS = {  # the papers' words
    "cap": "caption",
    "cv": "view-invariance",
    "cbr": "backward reasoning",
    "dirl": "channel correlation",
    "ccr": "cross-modal contrast",
    "judge": "distractor judging",
}
MEASURES = {"judge_accuracy": "Accuracy of distractor judging, in training"}  # logged beside the losses


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
    scores = [
        Line(own[cell.model], cell.seed, curve["iteration"], [100 * score for score in curve["CIDEr-D"]])
        for cell in results.cells
        for curve in [cell.validation]
    ]
    found = [("Validation CIDEr-D × 100", scores, max)]
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


def _panel(title: str, dataset: str, lines: list[Line], best: Callable[[list[float]], float]) -> Panel:
    ends = "; ".join(
        f"{line.style.model}, seed {line.seed}: {best.__name__}imum {best(line.y):.2f}, last {line.y[-1]:.2f}"
        for line in lines
    )
    drawn = svg(lambda axes: _draw(axes, lines), salt=f"{dataset} {title}")
    return Panel(title, f"{title} over iterations. {ends}.", drawn)


def _draw(axes: Axes, lines: list[Line]) -> None:
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
