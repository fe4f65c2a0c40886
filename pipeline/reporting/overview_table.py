"""Make tables of scores for page and terminal, and tests of differences, from the table of all scores."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from pandas import DataFrame

from pipeline.io.errors import InputError
from pipeline.io.inputs import read_text
from pipeline.io.records import read_record
from pipeline.reporting.dataset_results import REMEDY, Results
from pipeline.reporting.score_table import Column, has_score, means, printed
from pipeline.reporting.tables import NONE, Table
from pipeline.scoring import table_notes
from pipeline.scoring.metric_names import ACCURACY, BY_CHANGE, CIDER, CORPUS, SPICE, TOTAL, heading
from pipeline.statistics.comparisons import Comparison, compare_all, p_value

CONSTANT, MEAN = "constant", "mean"  # also the CSS classes of their rows on the report's page
SCORES, NOTES = (
    "scores.csv",
    "notes.json",
)  # files of the report: scores; lines below each table
# truth comes first, because a false caption may score well. CIDEr-D over all pairs rewards the caption "there
# is no change"; so CIDEr-D of the changed pairs is next to it
COLUMNS: dict[Column, str] = {
    **{(TOTAL, metric): heading(metric) for metric in (*BY_CHANGE, *CORPUS)},
    ("change", CIDER): f"{CIDER}/changed",
    **{(TOTAL, metric): heading(metric) for metric in (SPICE, ACCURACY)},
}
"""Columns of the score table: subset and metric -> heading."""


def notes(results: Results) -> list[str]:
    """Return the lines below a dataset's table: scored pairs, best constants, and each run's captions."""
    shared: list[str] = []
    own: list[str] = []
    for run, described in {"": results.constant, **results.metrics}.items():
        shared += [*table_notes.of_scope(described), *table_notes.of_constants(described)]
        lines = table_notes.of_captions(described) if run else []
        warnings = [line for line in lines if line.startswith(table_notes.WARNING)]
        # of two lines on repetition, the last one is of the changed pairs
        repetition = [line for line in lines if line not in warnings][-1:]
        routed = table_notes.of_routing(described)
        own += [f"{run}: {line}" for line in (*repetition, *routed, *warnings)]
    return [*dict.fromkeys(shared), *own]


def columns(scores: DataFrame) -> dict[Column, str]:
    return {column: text for column, text in COLUMNS.items() if has_score(scores, *column)}


def table(
    title: str,
    columns: Mapping[Column, str],
    scores: DataFrame,
    notes: Sequence[str] = (),
    each_seed: bool = False,
) -> Table:
    """Return a table of scores with these columns (key -> heading), and lines below it.

    With `each_seed`, a model with several seeds has a row for each seed before their mean.
    """
    lines: list[tuple[str, str, list[str]]] = []
    for model, of_model in scores.groupby("model", sort=False):
        seeds, mean = means(of_model, ["seed"]), means(of_model, ["model"])
        rows = [(str(seed), row) for seed, row in seeds.iterrows()] if each_seed or len(seeds) == 1 else []
        if len(seeds) > 1:
            rows.append((MEAN, mean.iloc[0]))
        lines += [(str(model), seed, [printed(row, column) for column in columns]) for seed, row in rows]
    seeded = any(seed not in ("", MEAN) for _, seed, _ in lines)
    kinds = {index: CONSTANT for index, (model, _, _) in enumerate(lines) if model == CONSTANT}
    if seeded:
        kinds |= {index: MEAN for index, (_, seed, _) in enumerate(lines) if seed == MEAN}
    texts = [[model, *[seed] * seeded, *cells] for model, seed, cells in lines]
    headings = ["model", *["seed"] * seeded, *columns.values()]
    return Table(title, headings, texts, notes, texts=1 + seeded, kinds=kinds)


def significance(results: Results) -> Table | None:
    """Return a table of the tested differences between all pairs of models; None for a single model."""
    if len(results.evidence) < 2:
        return None
    # a difference is the later minus the earlier model of params.yaml, because baselines come first there
    comparisons = compare_all(dict(reversed(results.evidence.items())))
    metrics = dict.fromkeys(metric for by_metric in comparisons.values() for metric in by_metric)
    rows = [
        [
            f"{later} − {earlier}",
            *(_difference(by_metric[metric]) if metric in by_metric else NONE for metric in metrics),
        ]
        for (later, earlier), by_metric in comparisons.items()
    ]
    return Table("Differences × 100 with their 95 % intervals.", ["models", *map(heading, metrics)], rows)


def _difference(comparison: Comparison) -> str:
    remark = "" if comparison.significant else ", not significant"
    return f"{comparison.printed}\n{p_value(comparison.p)}{remark}"


def text_of(results: Sequence[Results]) -> str:
    return pd.concat([result.scores for result in results]).to_csv(index=False, lineterminator="\n")


def read(folder: Path) -> tuple[DataFrame, dict[str, list[str]]]:
    """Read the table of all scores, and dataset -> lines below its table, of the report in a folder."""
    path = folder / SCORES
    columns = ["dataset", "run", "model", "seed", "subset", "metric", "value"]
    text = read_text(path, REMEDY)
    try:
        scores = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
        scores["value"] = scores["value"].astype(float)
    except (ValueError, KeyError) as error:
        raise InputError(
            f"{path} is no table of scores ({' '.join(str(error).split())[:80]}); {REMEDY}"
        ) from None
    if [*scores] != columns or not scores["value"].abs().lt(float("inf")).all():
        raise InputError(f"{path} is no table of scores; {REMEDY}")
    return scores, read_record(folder / NOTES, dict[str, list[str]], REMEDY)
