"""Diagrams as inline SVG: their colours are the page's, and their bytes the same every time."""

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.reporting.dataset_results import Cell

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

SIZE = (4.4, 2.7)  # inches of 72 units; the page scales it
COLOURS = 8  # that the page's style sheet has, --line-0 …
DASHES = ((), (5, 2), (1.5, 1.5), (6, 2, 1.5, 2), (10, 3))
# drawn in colours that occur nowhere else, then named after the page's own, of light and dark mode
INK, RULE, QUIET = "#0f0f01", "#0f0f02", "#0f0f03"
LINES = [f"#0f0f{16 + number:02x}" for number in range(COLOURS)]
PAGE_COLOURS = {INK: "currentColor", RULE: "var(--rule)", QUIET: "var(--quiet)"} | {
    line: f"var(--line-{number})" for number, line in enumerate(LINES)
}
STYLE: "dict[RcKeyType, Any]" = {
    "axes.axisbelow": True,
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
    """How one model's lines and bars look, in every panel."""

    model: str
    number: int

    @property
    def colour(self) -> str:
        """As the page names it."""
        return f"var(--line-{self.number % COLOURS})"

    @property
    def drawn(self) -> str:
        """As it is drawn, before the page names it."""
        return LINES[self.number % COLOURS]

    @property
    def dashes(self) -> tuple[float, ...]:
        """Lengths of dashes and gaps, in widths of the line; none for a whole line."""
        return DASHES[self.number % len(DASHES)]

    def dasharray(self, width: float) -> str:
        """The dashes of a line of that width, as SVG writes them."""
        return " ".join(f"{width * length:g}" for length in self.dashes) or "none"


@dataclass(frozen=True)
class Panel:
    """One diagram."""

    title: str
    told: str  # what a reader hears who does not see it
    svg: str


def styles(cells: Sequence[Cell]) -> dict[str, Style]:
    """A style for each model, in order."""
    models = dict.fromkeys(cell.model for cell in cells)
    return {model: Style(model, number) for number, model in enumerate(models)}


def svg(draw: Callable[[Axes], None], salt: str) -> str:
    """What `draw` puts on a diagram's axes, as an SVG element; `salt` is another one for each of a page."""
    # so that each panel of the page has ids of its own
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": salt}):
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.add_subplot()
        axes.grid(axis="y")
        axes.tick_params(length=0)
        draw(axes)
        written = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(written, format="svg", transparent=True, metadata=nothing)
    return _inline(written.getvalue())


def _inline(document: str) -> str:
    """The SVG element without what only a file needs: namespaces, size, fonts, names of parts."""
    svg = document[document.index("<svg") :]
    svg = re.sub(r"<svg [^>]*(viewBox=\"[^\"]*\")[^>]*>", r'<svg \1 aria-hidden="true">', svg, count=1)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    svg = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", svg)  # figure_1 …: doubled from panel to panel
    for drawn, shown in PAGE_COLOURS.items():
        svg = svg.replace(drawn, shown)
    return svg
