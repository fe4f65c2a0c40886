"""Bars of scores by part of the split, by attribute, by how well the decoder looks: a bar for each model."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pipeline.reporting.overview_table import CONSTANT, Row
from pipeline.reporting.svg import INK, QUIET, Panel, Style, svg

FILLED = 0.78  # of the distance from one group of bars to the next
Key = tuple[str, str]
"""Subset and metric, as a row's scores are named."""


@dataclass(frozen=True)
class Group:
    """The bars that stand together."""

    label: str  # beneath them, \\n breaks it
    key: Key


def panel(
    title: str, dataset: str, groups: Sequence[Group], rows: Sequence[Row], styles: dict[str, Style]
) -> Panel | None:
    """Bars of `groups` x models with whiskers of ± one deviation; None where no model has any of them.

    `rows` are one a model, and the constant caption's, which is drawn as a mark across the bars.
    """
    known = [g for g in groups if any(g.key in row.scores for row in rows if row.model in styles)]
    if not known:
        return None
    drawn = svg(lambda axes: _draw(axes, known, rows, styles), salt=f"{dataset} {title}")
    told = "; ".join(
        f"{row.model}: " + ", ".join(f"{g.label} {row.printed(*g.key)}" for g in known) for row in rows
    )
    return Panel(title, f"{title}. {told}.".replace("\n", " "), drawn)


def _draw(axes: Axes, groups: Sequence[Group], rows: Sequence[Row], styles: dict[str, Style]) -> None:
    width = FILLED / len(styles)
    for place, group in enumerate(groups):
        for row in rows:
            if group.key not in row.scores:
                continue
            mean, deviation = (100 * (value or 0) for value in row.scores[group.key])
            if row.model == CONSTANT:
                axes.hlines(mean, place - 0.46, place + 0.46, colors=QUIET, linewidth=1, linestyles="dotted")
                continue
            x = place + (styles[row.model].number - (len(styles) - 1) / 2) * width
            axes.bar(x, mean, width * 0.9, color=styles[row.model].drawn)
            if deviation:
                axes.vlines(x, mean - deviation, mean + deviation, colors=INK, linewidth=0.9)
    axes.set_xticks(range(len(groups)), [group.label for group in groups])
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.spines["left"].set_visible(False)
