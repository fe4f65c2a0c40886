"""Compare the scores of trained models on rendered test pairs with their scores on real images.

    python -m benchmarks reality --labelled FOLDER [--lab LAB] data/weights/tabletop/*/1

The models must have been scored: LAB, their repository (default: this folder), has results/runs.
The table has the percentage of true captions in five columns: rendered changes; rendered changes of colour
(CLEVR-Change's labelled scenes have only these); rendered unchanged pairs; real changed pairs; real unchanged
pairs. Rank correlations compare the order of the models on rendered and on real pairs. Intervals are
percentile bootstraps over scenes. For correlations, models are resampled, too.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import spearmanr

from pipeline.captioning import judging
from pipeline.captioning.pair_captioner import PairCaptioner, Search
from pipeline.cli.arguments import parsed, to_read
from pipeline.datasets.schema import NO_CHANGE
from pipeline.io.inputs import read_json
from pipeline.io.outputs import file_to_write, write_json, write_text
from pipeline.reporting import figures

RESAMPLES = 2000
LEAST = 3  # smallest number of models for a rank correlation
# column of the table -> subset in metrics.json
RENDERED = {"changes": "change", "color": "color", "unchanged": "no_change"}


@dataclass(frozen=True)
class Row:
    """Results of one model, on rendered pairs and on pairs of real images."""

    model: str
    rendered: dict[str, float]  # column of RENDERED -> share of true captions on rendered pairs
    changed: np.ndarray  # for each labelled scene: True if the caption of the changed real pair is true
    unchanged: np.ndarray  # for each labelled scene: the same for its unchanged real pair


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
        write_json(arguments.out, {row.model: judgements(row) for row in rows})


def judgements(row: Row) -> dict[str, object]:
    real = {"changed": row.changed.tolist(), "unchanged": row.unchanged.tolist()}
    return {"rendered": row.rendered, "real": real}


def read(weights: Path, lab: Path, labelled: Path) -> Row:
    """Return a model's results: its captions of the labelled images, judged, and its stored scores.

    The stored scores are in metrics.json of the repository `lab`. Raises InputError if the file is missing.
    """
    captioner = PairCaptioner.load(weights, lab)
    seed, model, dataset = weights.name, weights.parent.name, weights.parent.parent.name
    path = lab / "results/runs" / dataset / model / seed / "metrics.json"
    metrics = read_json(path, f"run `dvc repro score@{dataset}-{model}-{seed}`")
    judged = judging.judged_labelled(captioner, labelled, Search(1))
    true = {
        unchanged: np.array(
            [verdict.true for pair, _, verdict in judged if (pair.change_type == NO_CHANGE) == unchanged]
        )
        for unchanged in (False, True)
    }
    rendered = {column: metrics[subset]["true"] for column, subset in RENDERED.items()}
    return Row(model, rendered, true[False], true[True])


def table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a Markdown table of the models. The best model on real changes is first."""
    lines = [
        "| model | rendered: changes | rendered: color | rendered: unchanged "
        "| real: changes (95 %) | real: unchanged (95 %) |",
        "|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: -row.changed.mean()):
        shares = [f"{100 * row.rendered[column]:.1f}" for column in RENDERED]
        real = [interval(true) for true in (row.changed, row.unchanged)]
        lines.append("| " + " | ".join([row.model, *shares, *real]) + " |")
    return lines


def interval(true: np.ndarray) -> str:
    """Return, as text, the percentage of true captions with its bootstrap interval over scenes."""
    drawn = np.random.default_rng(0).choice(true, (RESAMPLES, len(true))).mean(1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"{100 * true.mean():.0f} ({100 * low:.0f} to {100 * high:.0f})"


def correlations(rows: Sequence[Row]) -> list[str]:
    """Return a line for each column of RENDERED: the rank correlation (Spearman's) with real pairs."""
    if len(rows) < LEAST:
        return [f"no rank correlation of fewer than {LEAST} models"]
    pairs = {"changes": "changed", "color": "changed", "unchanged": "unchanged"}
    lines = []
    for column, real in pairs.items():
        rendered = np.array([row.rendered[column] for row in rows])
        true = np.stack([getattr(row, real) for row in rows]).astype(float)  # models x scenes
        low, high = np.nanpercentile(list(resampled(rendered, true)), [2.5, 97.5])
        correlation = spearmanr(rendered, true.mean(1)).statistic
        lines.append(
            f"rank correlation, rendered {column} and real {real}: "
            f"{correlation:.2f} ({low:.2f} to {high:.2f})"
        )
    return lines


def resampled(rendered: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Return the rank correlation over models in RESAMPLES bootstrap samples of models and scenes.

    rendered: (models,), shares of true captions on rendered pairs
    true: (models, scenes), 1 where the caption of a real pair is true

    The correlation is NaN if all models of a sample have the same share.
    """
    random = np.random.default_rng(0)
    models, scenes = true.shape
    correlations = np.full(RESAMPLES, np.nan)
    for index in range(RESAMPLES):
        sample = random.integers(models, size=models)
        real = true[np.ix_(sample, random.integers(scenes, size=scenes))].mean(1)
        if np.ptp(real) > 0 and np.ptp(rendered[sample]) > 0:
            correlations[index] = spearmanr(rendered[sample], real).statistic
    return correlations


def scatter(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw a point for each model: percentages of true captions of rendered (x) and of real changes (y)."""
    for number, row in enumerate(rows):
        point = 100 * row.rendered["changes"], 100 * row.changed.mean()
        style = {"color": f"C{number % 10}", "marker": "osD"[number // 10 % 3], "linestyle": "none"}
        axes.plot(*point, label=row.model, **style)
    axes.plot([0, 100], [0, 100], color=figures.RULE, zorder=0)
    axes.set_xlabel("true, changes, rendered test pairs, percent")
    axes.set_ylabel("true, changes, real images, percent")
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize="x-small")
