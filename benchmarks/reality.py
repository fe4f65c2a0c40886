"""Compare the scores of trained models on rendered test pairs with their scores on real images.

    python -m benchmarks reality --labelled FOLDER [--lab LAB] data/weights/tabletop/*/1
    python -m benchmarks reality --labelled FOLDER --assets FOLDER --drawn FOLDER data/weights/tabletop/*/1

The models must have been scored: LAB, their repository (default: this folder), has results/runs.
The table has the percentage of true captions in five columns: rendered changes; rendered changes of colour
(CLEVR-Change's labelled scenes have only these); rendered unchanged pairs; real changed pairs; real unchanged
pairs. With --assets (CLEVR's files), two more are of new scenes, drawn with Blender as CLEVR's program does.
Rank correlations compare the order of the models on two of the sets. Intervals are percentile bootstraps over
scenes. For correlations, models are resampled, too.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import spearmanr

from pipeline.captioning import judging
from pipeline.captioning.pair_captioner import PairCaptioner, Search
from pipeline.cli.arguments import parsed, to_read, whole
from pipeline.config import params
from pipeline.datasets.schema import NO_CHANGE
from pipeline.demo import drawn_scenes
from pipeline.io.inputs import read_json
from pipeline.io.outputs import file_to_write, write_json, write_text
from pipeline.reporting import figures

RESAMPLES = 2000
LEAST = 3  # smallest number of models for a rank correlation
# column of the table -> subset in metrics.json
RENDERED = {"changes": "change", "color": "color", "unchanged": "no_change"}


@dataclass(frozen=True)
class Row:
    """Results of one model on rendered test pairs and on other sets: real images, Blender's scenes."""

    model: str
    rendered: dict[str, float]  # column of RENDERED -> share of true captions on rendered pairs
    true: dict[str, dict[str, np.ndarray]]  # set -> changes | unchanged -> is each caption true?


@dataclass(frozen=True)
class Drawn:
    """New scenes that Blender draws."""

    assets: Path  # the folder of CLEVR's files
    scenes: int  # of each kind of change, and without a change
    seed: int
    kept: Path | None  # a folder that keeps the images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("weights", type=to_read, nargs="+", help="folders of data/weights")
    parser.add_argument("--labelled", type=to_read, required=True)
    parser.add_argument("--lab", type=to_read, default=Path())
    parser.add_argument("--assets", type=to_read, help="CLEVR's files, to draw new scenes with Blender")
    parser.add_argument(
        "--scenes", type=whole(1, 10_000), default=50, help="new scenes per kind (default: 50)"
    )
    parser.add_argument(
        "--seed", type=whole(0, 2**32 - 1), default=2026, help="of new scenes (default: 2026)"
    )
    parser.add_argument("--drawn", type=to_read, help="a folder that keeps their images")
    parser.add_argument("--figure", type=file_to_write, help="a scatter plot to write, .svg")
    parser.add_argument("--out", type=file_to_write, help="a JSON file for every judgement")
    arguments = parsed(parser)
    drawn = None
    if arguments.assets:
        drawn = Drawn(arguments.assets, arguments.scenes, arguments.seed, arguments.drawn)
    rows = [read(weights, arguments.lab, arguments.labelled, drawn) for weights in arguments.weights]
    print("\n".join([*table(rows), "", *correlations(rows)]))
    if arguments.figure:
        write_text(arguments.figure, figures.svg_file(lambda axes: scatter(axes, rows)))
    if arguments.out:
        write_json(arguments.out, {row.model: judgements(row) for row in rows})


def judgements(row: Row) -> dict[str, object]:
    true = {name: {side: pairs.tolist() for side, pairs in sides.items()} for name, sides in row.true.items()}
    return {"rendered": row.rendered} | true


def read(weights: Path, lab: Path, labelled: Path, drawn: Drawn | None = None) -> Row:
    """Return a model's results: its captions of the labelled and of the drawn images, judged, and its scores.

    The scores are in metrics.json of the repository `lab`. New scenes are like those of its params.yaml.
    Raises InputError if a file is missing.
    """
    captioner = PairCaptioner.load(weights, lab)
    seed, model, dataset = weights.name, weights.parent.name, weights.parent.parent.name
    path = lab / "results/runs" / dataset / model / seed / "metrics.json"
    metrics = read_json(path, f"run `dvc repro score@{dataset}-{model}-{seed}`")
    true = {"real": by_side(judging.judged_labelled(captioner, labelled, Search(1)))}
    if drawn:
        settings = params.load(lab / "params.yaml").tabletop.of(dataset)
        look = {"look": "blender", "assets": str(drawn.assets), "seed": drawn.seed}
        settings = settings.model_copy(update=look)
        true["Blender"] = by_side(
            drawn_scenes.judge_new_scenes(captioner, settings, drawn.scenes, Search(1), drawn.kept)
        )
    return Row(model, {column: metrics[subset]["true"] for column, subset in RENDERED.items()}, true)


def by_side(judged: Sequence[judging.JudgedCaption]) -> dict[str, np.ndarray]:
    """Return, for changed and for unchanged pairs, whether each caption is true."""
    return {
        side: np.array(
            [verdict.true for pair, _, verdict in judged if (pair.change_type == NO_CHANGE) == unchanged]
        )
        for side, unchanged in (("changes", False), ("unchanged", True))
    }


def table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a Markdown table of the models. The best model on real changes is first."""
    others = [(name, side) for name, sides in rows[0].true.items() for side in sides]
    headings = [f"rendered: {column}" for column in RENDERED] + [
        f"{name}: {side} (95 %)" for name, side in others
    ]
    lines = ["| " + " | ".join(["model", *headings]) + " |", "|---" * (1 + len(headings)) + "|"]
    for row in sorted(rows, key=lambda row: -row.true["real"]["changes"].mean()):
        shares = [f"{100 * row.rendered[column]:.1f}" for column in RENDERED]
        shares += [interval(row.true[name][side]) for name, side in others]
        lines.append("| " + " | ".join([row.model, *shares]) + " |")
    return lines


def interval(true: np.ndarray) -> str:
    """Return, as text, the percentage of true captions with its bootstrap interval over scenes."""
    drawn = np.random.default_rng(0).choice(true, (RESAMPLES, len(true))).mean(1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"{100 * true.mean():.0f} ({100 * low:.0f} to {100 * high:.0f})"


def correlations(rows: Sequence[Row]) -> list[str]:
    """Return a line for each two columns to compare: the rank correlation (Spearman's) over the models."""
    if len(rows) < LEAST:
        return [f"no rank correlation of fewer than {LEAST} models"]
    columns = {
        f"rendered {column}": np.array([[row.rendered[column]] for row in rows]) for column in RENDERED
    }
    for name in rows[0].true:
        for side in ("changes", "unchanged"):
            columns[f"{name} {side}"] = np.stack([row.true[name][side] for row in rows]).astype(float)
    lines = []
    for first, second in combinations(columns, 2):
        sides = {column.partition(" ")[2].replace("color", "changes") for column in (first, second)}
        sets = {column.partition(" ")[0] for column in (first, second)}
        if len(sides) > 1 or len(sets) == 1:
            continue
        correlation = spearmanr(columns[first].mean(1), columns[second].mean(1)).statistic
        low, high = np.nanpercentile(resampled(columns[first], columns[second]), [2.5, 97.5])
        lines.append(f"rank correlation, {first} and {second}: {correlation:.2f} ({low:.2f} to {high:.2f})")
    return lines


def resampled(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the rank correlation over models in RESAMPLES bootstrap samples of models and scenes.

    first, second: (models, scenes), 1 where the caption of a pair is true; or (models, 1), the share of true
        captions, whose scenes are then not resampled

    The correlation is NaN if all models of a sample have the same share.
    """
    random = np.random.default_rng(0)
    correlations = np.full(RESAMPLES, np.nan)
    for index in range(RESAMPLES):
        models = random.integers(len(first), size=len(first))
        shares = [
            true[np.ix_(models, random.integers(true.shape[1], size=true.shape[1]))].mean(1)
            for true in (first, second)
        ]
        if all(np.ptp(share) > 0 for share in shares):
            correlations[index] = spearmanr(*shares).statistic
    return correlations


def scatter(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw a point for each model: percentages of true captions of rendered (x) and of real changes (y)."""
    for number, row in enumerate(rows):
        point = 100 * row.rendered["changes"], 100 * row.true["real"]["changes"].mean()
        style = {"color": f"C{number % 10}", "marker": "osD"[number // 10 % 3], "linestyle": "none"}
        axes.plot(*point, label=row.model, **style)
    axes.plot([0, 100], [0, 100], color=figures.RULE, zorder=0)
    axes.set_xlabel("true, changes, rendered test pairs, percent")
    axes.set_ylabel("true, changes, real images, percent")
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize="x-small")
