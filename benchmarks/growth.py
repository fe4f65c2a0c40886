"""Measure how time and memory of the matching and of a training step grow with pairs and tokens.

Every point is measured in a process of its own (alone.py). Our side computes in bfloat16 if the device
supports it, else in float32. The reference computes in float32. A point of the reference is left out if its
similarities do not fit into memory or if a call takes too long. The model has the papers' sizes, with a
matching in each of 8 heads. In the matching both sides need O(B^2 N^2 D) operations. A dashed line shows this
growth from the first point of a series.
B: pairs; N: tokens of an image; D: width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from benchmarks import alone, training
from benchmarks.alone import Measured
from benchmarks.training import Case, fits
from pipeline.io import outputs
from pipeline.io.progress import track

FIGURE = Path(__file__).with_name("growth.svg")
BATCHES = tuple(Case("papers", "per_head", pairs) for pairs in (8, 16, 32, 64, 128))
TOKENS = tuple(Case("papers", "per_head", 8, grid) for grid in (7, 14, 28))
LONGEST = 60.0  # seconds; points whose call is predicted to take longer are left out
# memory that the reference needs, in multiples of a batch's similarities
AT_ONCE = {"matching": 5, "step": training.AT_ONCE}
SIDES = {"ours": "auto", "reference": "float32"}  # side -> precision
COLOURS = {  # kind, side
    ("matching", "ours"): "#56b4e9",
    ("matching", "reference"): "#e69f00",
    ("step", "ours"): "#0072b2",
    ("step", "reference"): "#d55e00",
}
STYLE = {"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "growth", "lines.markersize": 4}
PANELS: dict[str, Callable[[Measured], float]] = {
    "seconds": lambda found: found.seconds,
    "GiB": lambda found: found.bytes / 2**30,
}


@dataclass
class Curve:
    """Measured points of one side, for the matching or the training step."""

    kind: str  # matching | step
    side: str  # ours | reference
    points: dict[Case, Measured | None] = field(default_factory=dict)  # None: the point was left out

    def add(self, case: Case) -> None:
        """Measure the point of a case.

        Do nothing if the point has been measured, or if it needs too much memory or time.
        """
        if case not in self.points:
            room = self.side == "ours" or fits(case, AT_ONCE[self.kind])
            self.points[case] = self._measure(case) if room and self._quick(case) else None

    def _measure(self, case: Case) -> Measured | None:
        return alone.measure(self.kind, self.side, SIDES[self.side], case)

    def _quick(self, case: Case) -> bool:
        """Return True if the call is predicted to take less than LONGEST seconds.

        The prediction assumes that the time grows from the largest measured point in proportion to the number
        of similarities.
        """
        known = {work(c): found.seconds for c, found in self.points.items() if found}
        most = max(known, default=0)
        return not known or known[most] * max(1.0, work(case) / most) < LONGEST


def work(case: Case) -> int:
    """Return B^2 N^2; the matching's number of operations is proportional to it.

    D and the number of heads are the same in all cases.
    """
    return (case.scenes * case.grid**2) ** 2


def line(curve: Curve, cases: Sequence[Case], of: Callable[[Measured], float]) -> dict[Case, float]:
    """Return the points of the dashed line: case -> value, if the curve grew with B^2 N^2.

    The line starts at the curve's value for the first of `cases`. If the curve has no value for this case,
    the result is empty. `of` selects time or memory.
    """
    first = curve.points[cases[0]]
    return {} if first is None else {c: of(first) * work(c) / work(cases[0]) for c in cases}


def table(figure: Path = FIGURE, batches: Sequence[Case] = BATCHES, tokens: Sequence[Case] = TOKENS) -> Table:
    """Measure all points, write the figure, and return a table of them."""
    curves = [Curve(kind, side) for kind in ("matching", "step") for side in SIDES]
    todo = [(curve, case) for curve in curves for case in (*batches, *tokens)]
    for curve, case in track(todo, "growth", "points", len(todo)):
        curve.add(case)
    draw(figure, curves, batches, tokens)
    title = "B pairs (a step: B scenes, two pairs each) of N tokens; B²N²D: through the first row of a series"
    shown = Table("what", "B", "N", "ours", "B²N²D", "the reference", title=title)
    for mine, theirs in zip(curves[::2], curves[1::2], strict=True):
        for cases in (batches, tokens):
            for row in _rows(mine, theirs, cases):
                shown.add_row(*row)
    return shown


def _rows(mine: Curve, theirs: Curve, cases: Sequence[Case]) -> list[tuple[str, ...]]:
    seconds, bytes_ = (line(mine, cases, of) for of in (lambda m: m.seconds, lambda m: m.bytes))
    return [
        (
            mine.kind,
            str(case.scenes),
            str(case.grid**2),
            str(mine.points[case] or "–"),
            str(Measured(round(bytes_[case]), seconds[case])) if seconds else "–",
            str(theirs.points[case] or "–"),
        )
        for case in cases
    ]


def draw(figure: Path, curves: Sequence[Curve], batches: Sequence[Case], tokens: Sequence[Case]) -> None:
    """Draw time and memory over B N on logarithmic axes.

    B N is the number of tokens of all before images, or of all after images.
    """
    with matplotlib.rc_context(STYLE), outputs.replacing(figure) as beside:
        whole = Figure(figsize=(9, 4.2), layout="constrained")
        for axes, (unit, of) in zip(whole.subplots(1, 2), PANELS.items(), strict=True):
            axes.set(xscale="log", yscale="log", xlabel="pairs × tokens of an image", ylabel=unit)
            axes.grid(color="#dddddd")
            for curve in curves:
                _draw(axes, curve, batches, tokens, of)
        whole.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        whole.savefig(beside, format="svg", metadata={"Date": None, "Creator": None})


def _draw(
    axes: Axes,
    curve: Curve,
    batches: Sequence[Case],
    tokens: Sequence[Case],
    of: Callable[[Measured], float],
) -> None:
    colour = COLOURS[curve.kind, curve.side]
    for cases, marker, style, said in ((batches, "o", "-", "pairs"), (tokens, "s", ":", "tokens")):
        found = [(c.scenes * c.grid**2, of(curve.points[c])) for c in cases if curve.points[c]]
        places, values = [place for place, _ in found], [value for _, value in found]
        label = f"{curve.kind}, {curve.side}, more {said}"
        axes.plot(places, values, marker + style, color=colour, label=label)
    if curve.side == "ours":
        rule = line(curve, batches, of)
        places = [c.scenes * c.grid**2 for c in rule]
        axes.plot(places, [*rule.values()], "--", color=colour, lw=0.8, label=f"B²N²D, {curve.kind}")
