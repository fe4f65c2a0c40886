"""Draw the SVG figures of the report and of the results page. Equal inputs give equal bytes."""

import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

SIZE = (4.4, 2.7)  # inches of 72 units; the page scales it
WIDE = (6.4, 3.4)
COLOURS = 8  # --line-0 … in the page's style sheet
DASHES = ((), (5, 2), (1.5, 1.5), (6, 2, 1.5, 2), (10, 3))  # multiples of the line width; () is a solid line
# placeholders, replaced by the page's colours of light and dark mode
INK, RULE, QUIET = "#0f0f01", "#0f0f02", "#0f0f03"
LINES = [f"#0f0f{16 + number:02x}" for number in range(COLOURS)]
PAGE_COLOURS = {INK: "currentColor", RULE: "var(--rule)", QUIET: "var(--quiet)"} | {
    line: f"var(--line-{number})" for number, line in enumerate(LINES)
}
# files have no style sheet; these colours are visible on light and dark pages
HUES = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999999", "#ee8866", "#44bb99")
FILE_COLOURS = dict.fromkeys((INK, RULE, QUIET), "#808080")
STYLE: "dict[RcKeyType, Any]" = {
    "axes.axisbelow": True,
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.labelcolor": INK,
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
    """Colour and dashes of one model's lines in all panels of the page."""

    model: str
    placeholder: str  # colour in the drawing; in the finished SVG, `colour` replaces it
    dashes: tuple[float, ...]

    @property
    def colour(self) -> str:
        return PAGE_COLOURS[self.placeholder]

    def dasharray(self, width: float) -> str:
        return " ".join(f"{width * length:g}" for length in self.dashes) or "none"


def styles(models: Iterable[str]) -> dict[str, Style]:
    """Return model -> Style (colour and dashes of the model's lines) for all panels of a page."""
    return {
        model: Style(model, LINES[number % COLOURS], DASHES[number % len(DASHES)])
        for number, model in enumerate(dict.fromkeys(models))
    }


@dataclass(frozen=True)
class Panel:
    """A diagram of the report's page."""

    title: str
    description: str  # text for screen readers
    svg: str


def svg(draw: Callable[[Axes], None], salt: str) -> str:
    """Return an SVG element for HTML. `draw` draws on axes; `salt` makes ids unique within the page."""

    def draw_on_grid(axes: Axes) -> None:
        axes.grid(axis="y")
        axes.tick_params(length=0)
        draw(axes)

    document = _document(draw_on_grid, SIZE, salt, PAGE_COLOURS)
    svg = document[document.index("<svg") :]
    svg = re.sub(r"<svg [^>]*(viewBox=\"[^\"]*\")[^>]*>", r'<svg \1 aria-hidden="true">', svg, count=1)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    return re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", svg)  # ids such as figure_1 would be in several panels


def svg_file(draw: Callable[[Axes], None], size: tuple[float, float] = WIDE) -> str:
    """Return the content of an SVG file. `draw` draws its content on axes."""
    document = _document(draw, size, "results", FILE_COLOURS)
    return "\n".join(line.rstrip() for line in document.rstrip("\n").split("\n")) + "\n"


def _document(
    draw: Callable[[Axes], None], size: tuple[float, float], salt: str, colours: Mapping[str, str]
) -> str:
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": salt}):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.add_subplot())
        buffer = io.StringIO()
        no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=no_metadata)
    document = buffer.getvalue()
    for placeholder, colour in colours.items():
        document = document.replace(placeholder, colour)
    return document
