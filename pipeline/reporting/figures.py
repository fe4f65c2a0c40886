"""Draw the SVG figures of the report and of the results page. Equal inputs give equal bytes."""

import io
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.reporting.overview_table import CONSTANT, Key, Row

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
MARKS = "osD^v<>ph*XP"
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
FILLED = 0.78  # share of the distance between groups of bars that bars fill


@dataclass(frozen=True)
class Style:
    """Colour and dashes of one model's lines and bars in all panels of the page."""

    model: str
    number: int

    @property
    def colour(self) -> str:
        """The colour as a CSS value, which the page defines."""
        return PAGE_COLOURS[self.drawn]

    @property
    def drawn(self) -> str:
        """Placeholder for the colour. `colour` replaces it after drawing."""
        return LINES[self.number % COLOURS]

    @property
    def dashes(self) -> tuple[float, ...]:
        return DASHES[self.number % len(DASHES)]

    def dasharray(self, width: float) -> str:
        """Return the dashes of a line of this width, as the value of an SVG attribute."""
        return " ".join(f"{width * length:g}" for length in self.dashes) or "none"


def styles(models: Iterable[str]) -> dict[str, Style]:
    """Return model -> style, for all panels of a page.

    A style depends only on the model's position in `models`.
    """
    return {model: Style(model, number) for number, model in enumerate(dict.fromkeys(models))}


def looks(models: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return model -> colour, marker and dashes. They depend on the model's name.

    If two names map to the same look, the later name in the alphabet takes the next free look. With more than
    108 models, looks repeat.
    """
    found: dict[str, int] = {}
    left: set[int] = set()
    for model in sorted(models):
        left = left or set(range(len(HUES) * len(MARKS)))
        number = zlib.crc32(model.encode()) % (len(HUES) * len(MARKS))
        found[model] = min(left, key=lambda each: (each - number) % (len(HUES) * len(MARKS)))
        left.remove(found[model])
    return {
        model: {
            "color": HUES[number % len(HUES)],
            "marker": MARKS[number // len(HUES)],
            "linestyle": (0, DASHES[number // len(HUES) % len(DASHES)]),
        }
        for model, number in found.items()
    }


@dataclass(frozen=True)
class Panel:
    """A diagram of the report's page."""

    title: str
    told: str  # text for screen readers
    svg: str


def panel(title: str, told: str, dataset: str, draw: Callable[[Axes], None]) -> Panel:
    """Make a panel of the page. `draw` draws its content; `told` is the text for screen readers."""
    return Panel(title, told, svg(draw, f"{dataset} {title}"))


def svg(draw: Callable[[Axes], None], salt: str) -> str:
    """Return an SVG element for HTML, without namespaces, size and fonts. `draw` draws its content on axes.

    `salt` must differ between the elements of a page, so that ids are unique.
    """

    def on_lines(axes: Axes) -> None:
        axes.grid(axis="y")
        axes.tick_params(length=0)
        draw(axes)

    document = _document(on_lines, SIZE, salt, PAGE_COLOURS)
    svg = document[document.index("<svg") :]
    svg = re.sub(r"<svg [^>]*(viewBox=\"[^\"]*\")[^>]*>", r'<svg \1 aria-hidden="true">', svg, count=1)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    return re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", svg)  # ids such as figure_1 would be in several panels


def svg_file(draw: Callable[[Axes], None], size: tuple[float, float] = WIDE) -> str:
    """Return the content of an SVG file. `draw` draws its content on axes."""
    written = _document(draw, size, "results", FILE_COLOURS)
    return "\n".join(line.rstrip() for line in written.splitlines()) + "\n"


def _document(
    draw: Callable[[Axes], None], size: tuple[float, float], salt: str, colours: Mapping[str, str]
) -> str:
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": salt}):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.add_subplot())
        written = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(written, format="svg", transparent=True, metadata=nothing)
    document = written.getvalue()
    for drawn, shown in colours.items():
        document = document.replace(drawn, shown)
    return document


def bars(
    title: str, dataset: str, groups: Mapping[str, Key], rows: Sequence[Row], styles: Mapping[str, Style]
) -> Panel | None:
    """Return a bar chart with a group of bars per score and a bar per model; None without scores.

    groups: label of a group -> key of the score that its bars show. rows: a row of the score table per model.
    Whiskers show ± one standard deviation over seeds. The score of the constant caption is a dotted line
    across the group.
    """
    known = {
        label: key
        for label, key in groups.items()
        if any(key in row.scores for row in rows if row.model in styles)
    }
    if not known:
        return None
    told = "; ".join(
        f"{row.model}: " + ", ".join(f"{label} {row.printed(*key)}" for label, key in known.items())
        for row in rows
    )
    told = f"{title}. {told}.".replace("\n", " ")
    return panel(title, told, dataset, lambda axes: _draw_bars(axes, known, rows, styles))


def _draw_bars(
    axes: Axes, groups: Mapping[str, Key], rows: Sequence[Row], styles: Mapping[str, Style]
) -> None:
    width = FILLED / len(styles)
    for place, key in enumerate(groups.values()):
        for row in (row for row in rows if key in row.scores):
            mean, deviation = 100 * row.scores[key].mean, 100 * (row.scores[key].sd or 0)
            if row.model == CONSTANT:
                axes.hlines(mean, place - 0.46, place + 0.46, colors=QUIET, linewidth=1, linestyles="dotted")
                continue
            x = place + (styles[row.model].number - (len(styles) - 1) / 2) * width
            axes.bar(x, mean, width * 0.9, color=styles[row.model].drawn)
            if deviation:
                axes.vlines(x, mean - deviation, mean + deviation, colors=INK, linewidth=0.9)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_xlim(-0.5, len(groups) - 0.5)
    if axes.dataLim.y1 == 0 == axes.dataLim.y0:
        axes.set_ylim(0, 1)  # else an axis of zeros goes from -0.05 to 0.05
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.spines["left"].set_visible(False)
