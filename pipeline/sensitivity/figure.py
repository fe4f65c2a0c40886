"""Draw the matrix of edits and metrics as a figure: the share of its score that each metric keeps."""

from matplotlib.axes import Axes

from pipeline.reporting.figures import HUES, INK, RULE
from pipeline.sensitivity.matrix import EditRow, Matrix, short

WRONG, RIGHT = HUES[1], HUES[0]
ROW, COLUMN, MARGIN = 0.22, 0.62, 2.6  # inches


def size(matrix: Matrix) -> tuple[float, float]:
    return MARGIN + COLUMN * len(matrix.metrics), 1.3 + ROW * len(matrix.rows)


def draw(matrix: Matrix, axes: Axes) -> None:
    """Draw a cell for each edit and metric. A cell is the darker, the more of the score is kept."""
    wrong = [row for row in matrix.rows if row.is_wrong]
    rows: list[EditRow | None] = [*wrong, None, *(row for row in matrix.rows if not row.is_wrong)]
    for y, row in enumerate(rows):
        for x, name in enumerate(matrix.metrics if row else ()):
            if row is not None and (kept := row.metrics[name].kept) is not None:
                hue, share = WRONG if row.is_wrong else RIGHT, min(1.0, max(0.0, kept.value))
                axes.fill([x, x + 1, x + 1, x], [y, y, y + 1, y + 1], color=hue, alpha=0.75 * share, lw=0)
                axes.text(x + 0.5, y + 0.55, short(kept.value), ha="center", va="center", fontsize=6.5)
    axes.set_xlim(0, len(matrix.metrics))
    axes.set_ylim(len(rows), 0)
    labels = [x + 0.5 for x in range(len(matrix.metrics))]
    axes.set_xticks(labels, [name.replace(", ", ",\n") for name in matrix.metrics], rotation=90, fontsize=7)
    axes.xaxis.tick_top()
    ticks = [y + 0.5 for y, row in enumerate(rows) if row]
    axes.set_yticks(ticks, [row.edit for row in rows if row], fontsize=7)
    axes.tick_params(length=0, labelcolor=INK, color=RULE)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xlabel("share of the score that is kept; red: something is wrong, blue: nothing is wrong")
