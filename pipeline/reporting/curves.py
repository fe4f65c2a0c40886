"""Learning curves as inline SVG: its colours are the page's, and its bytes the same every time."""

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.reporting.cells import Cell, Results

SIZE = (4.4, 2.7)  # inches of 72 units; the page scales it
MARKED = 20  # points at most, of a line whose points are marked
TERMS = {"cap": "caption", "cv": "view-invariance", "cbr": "backward reasoning"}  # the papers' words
COLOURS = 8  # that the page's style sheet has, --line-0 …
DASHES = ((), (5, 2), (1.5, 1.5), (6, 2, 1.5, 2), (10, 3))
# drawn in colours that occur nowhere else, then named after the page's own, of light and dark mode
INK, RULE = "#0f0f01", "#0f0f02"
LINES = [f"#0f0f{16 + number:02x}" for number in range(COLOURS)]
PAGE_COLOURS = {INK: "currentColor", RULE: "var(--rule)"} | {
    line: f"var(--line-{number})" for number, line in enumerate(LINES)
}
STYLE = {
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 3,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": RULE,
    "xtick.labelcolor": INK,
    "ytick.color": RULE,
    "ytick.labelcolor": INK,
}


@dataclass(frozen=True)
class Style:
    """How one model's lines look, in every panel."""

    model: str
    number: int

    @property
    def colour(self) -> str:
        """As the page names it."""
        return f"var(--line-{self.number % COLOURS})"

    @property
    def dashes(self) -> tuple[float, ...]:
        """Lengths of dashes and gaps, in widths of the line; none for a whole line."""
        return DASHES[self.number % len(DASHES)]

    def dasharray(self, width: float) -> str:
        """The dashes of a line of that width, as SVG writes them."""
        return " ".join(f"{width * length:g}" for length in self.dashes) or "none"


@dataclass(frozen=True)
class Line:
    """One run's curve."""

    style: Style
    seed: int
    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class Panel:
    """One diagram, with a line for each run."""

    title: str
    told: str  # what a reader hears who does not see it
    svg: str


def styles(cells: Sequence[Cell]) -> dict[str, Style]:
    """A style for each model, in order."""
    models = dict.fromkeys(cell.model for cell in cells)
    return {model: Style(model, number) for number, model in enumerate(models)}


def panels(results: Results) -> list[Panel]:
    """A panel of the validation's CIDEr-D x 100, and one for each training loss that some model has."""
    own = styles(results.cells)
    scores = [
        Line(own[cell.model], cell.seed, curve["iteration"], [100 * score for score in curve["CIDEr-D"]])
        for cell in results.cells
        for curve in [cell.validation]
    ]
    found = [_panel("Validation CIDEr-D × 100", results.dataset, scores, max)]
    for term in dict.fromkeys(name for cell in results.cells for name in cell.losses if name != "iteration"):
        losses = [
            Line(own[cell.model], cell.seed, cell.losses["iteration"], cell.losses[term])
            for cell in results.cells
            if term in cell.losses
        ]
        found.append(_panel(f"Training loss: {TERMS.get(term, term)}", results.dataset, losses, min))
    return found


def _panel(title: str, dataset: str, lines: list[Line], best: Callable[[list[float]], float]) -> Panel:
    ends = "; ".join(
        f"{line.style.model}, seed {line.seed}: {best.__name__}imum {best(line.y):.2f}, last {line.y[-1]:.2f}"
        for line in lines
    )
    return Panel(title, f"{title} over iterations. {ends}.", _svg(lines, salt=f"{dataset} {title}"))


def _svg(lines: list[Line], salt: str) -> str:
    # a salt of its own gives each panel of the page ids of its own
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": salt}):
        figure = Figure(figsize=SIZE, layout="constrained")
        _draw(figure.add_subplot(), lines)
        written = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(written, format="svg", transparent=True, metadata=nothing)
    return _inline(written.getvalue())


def _draw(axes: Axes, lines: list[Line]) -> None:
    for line in lines:
        axes.plot(
            line.x,
            line.y,
            color=LINES[line.style.number % COLOURS],
            dashes=line.style.dashes or (None, None),
            marker="o" if len(line.x) <= MARKED else None,
        )
    axes.set_xlabel("iteration")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.grid(axis="y")
    axes.tick_params(length=0)


def _inline(document: str) -> str:
    """The SVG element without what only a file needs: namespaces, size, fonts, names of parts."""
    svg = document[document.index("<svg") :]
    svg = re.sub(r"<svg [^>]*(viewBox=\"[^\"]*\")[^>]*>", r'<svg \1 aria-hidden="true">', svg, count=1)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    svg = re.sub(r' id="[a-z0-9.]+_\d+"', "", svg)  # figure_1 …: doubled from panel to panel
    for drawn, shown in PAGE_COLOURS.items():
        svg = svg.replace(drawn, shown)
    return svg
