"""Scores on rendered test pairs as predictors of scores on real images; one row per trained model.

python -m benchmarks reality --labelled FOLDER [--lab LAB] data/weights/tabletop/*/1

The stages have trained, decoded and scored each folder of weights (its metrics are in results/cells). The
models caption the labelled images of FOLDER. Shares are percentages of true captions. CLEVR-Change's
labelled scenes have only changes of color, so the rendered share for color is given too. Intervals are
percentile bootstraps: of a share over scenes, of a rank correlation over scenes and models.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import spearmanr

from pipeline.captioning import judging
from pipeline.captioning.picture_captioner import PictureCaptioner, Search
from pipeline.cli.arguments import parsed, to_read
from pipeline.datasets.schema import NO_CHANGE
from pipeline.io.inputs import read_json
from pipeline.io.outputs import file_to_write, write_json, write_text
from pipeline.reporting import figures
from stages import run

RESAMPLES = 2000
LEAST = 3  # least number of models for a rank correlation
# column -> subset in metrics.json
RENDERED = {"changes": "change", "color": "color", "unchanged": "no_change"}


@dataclass(frozen=True)
class Row:
    """One model: shares of true captions on rendered pairs, and truth of each caption of a real image."""

    model: str
    rendered: dict[str, float]  # by the columns of RENDERED
    changed: np.ndarray  # per labelled scene: whether the caption of the changed pair is true
    unchanged: np.ndarray  # the same for the unchanged pair


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("weights", type=to_read, nargs="+", help="folders of data/weights")
    parser.add_argument("--labelled", type=to_read, required=True)
    parser.add_argument("--lab", type=to_read, default=Path())
    parser.add_argument("--figure", type=file_to_write, help="a scatter plot to write, .svg")
    parser.add_argument("--out", type=file_to_write, help="a JSON file for every judgement")
    arguments = parsed(parser)
    rows = [read(weights, arguments.lab, arguments.labelled) for weights in arguments.weights]
    print("\n".join([*table(rows), "", *correlations(rows)]))
    if arguments.figure:
        write_text(arguments.figure, figures.svg_file(lambda axes: scatter(axes, rows)))
    if arguments.out:
        write_json(arguments.out, {row.model: record(row) for row in rows})


def read(weights: Path, lab: Path, labelled: Path) -> Row:
    """Caption and judge the labelled images, and read the model's scores on rendered test pairs."""
    captioner = PictureCaptioner.load(weights, lab)
    seed, model, dataset = weights.name, weights.parent.name, weights.parent.parent.name
    place = lab / "results/cells" / dataset / model / seed / "metrics.json"
    metrics = read_json(place, f"run `dvc repro score@{dataset}-{model}-{seed}`")
    found = judging.judged_labelled(captioner, labelled, Search(1))
    true = {
        unchanged: np.array([each.true for kind, _, _, each in found if (kind == NO_CHANGE) == unchanged])
        for unchanged in (False, True)
    }
    rendered = {column: metrics[subset]["true"] for column, subset in RENDERED.items()}
    return Row(model, rendered, true[False], true[True])


def table(rows: Sequence[Row]) -> list[str]:
    """Return a Markdown table with a line per model, the best on real changes first."""
    lines = [
        "| model | rendered: changes | rendered: color | rendered: unchanged "
        "| real: changes (95 %) | real: unchanged (95 %) |",
        "|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda each: -each.changed.mean()):
        shares = [f"{100 * row.rendered[column]:.1f}" for column in RENDERED]
        real = [interval(each) for each in (row.changed, row.unchanged)]
        lines.append("| " + " | ".join([row.model, *shares, *real]) + " |")
    return lines


def interval(true: np.ndarray) -> str:
    """Return a share in percent with its bootstrap interval over scenes."""
    drawn = np.random.default_rng(0).choice(true, (RESAMPLES, len(true))).mean(1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"{100 * true.mean():.0f} ({100 * low:.0f} to {100 * high:.0f})"


def correlations(rows: Sequence[Row]) -> list[str]:
    """Return a line per column: Spearman's rank correlation of rendered and real shares over models."""
    if len(rows) < LEAST:
        return [f"no rank correlation of fewer than {LEAST} models"]
    pairs = {"changes": "changed", "color": "changed", "unchanged": "unchanged"}
    lines = []
    for column, real in pairs.items():
        rendered = np.array([row.rendered[column] for row in rows])
        true = np.stack([getattr(row, real) for row in rows]).astype(float)  # models x scenes
        low, high = np.nanpercentile(list(resampled(rendered, true)), [2.5, 97.5])
        found = spearmanr(rendered, true.mean(1)).statistic
        lines.append(
            f"rank correlation, rendered {column} and real {real}: {found:.2f} ({low:.2f} to {high:.2f})"
        )
    return lines


def resampled(rendered: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Return rank correlations of resampled models and scenes; NaN if all models of a sample are equal."""
    random = np.random.default_rng(0)
    models, scenes = true.shape
    found = np.full(RESAMPLES, np.nan)
    for place in range(RESAMPLES):
        some = random.integers(models, size=models)
        real = true[np.ix_(some, random.integers(scenes, size=scenes))].mean(1)
        if np.ptp(real) > 0 and np.ptp(rendered[some]) > 0:
            found[place] = spearmanr(rendered[some], real).statistic
    return found


def scatter(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw a point per model: rendered against real changes."""
    looks = figures.looks([row.model for row in rows])
    for row in rows:
        place = 100 * row.rendered["changes"], 100 * row.changed.mean()
        axes.plot(*place, label=row.model, **looks[row.model])
    axes.plot([0, 100], [0, 100], color=figures.RULE, zorder=0)
    axes.set_xlabel("true, changes, rendered test pairs, percent")
    axes.set_ylabel("true, changes, real images, percent")
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize="x-small")


def record(row: Row) -> dict[str, object]:
    """Return the row for a JSON file; real judgements are in the order of the scenes."""
    real = {"changed": row.changed.tolist(), "unchanged": row.unchanged.tolist()}
    return {"rendered": row.rendered, "real": real}


if __name__ == "__main__":
    run(main)
