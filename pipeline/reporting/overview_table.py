"""Make tables of scores for page and terminal, a flat list of all scores, and tests of differences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline.io.inputs import read_json
from pipeline.io.records import checked
from pipeline.reporting.dataset_results import REMEDY, Metrics, Results
from pipeline.reporting.tables import NONE, Table
from pipeline.scoring import metric_names, table_notes
from pipeline.scoring.metric_names import ACCURACY, CIDER, CORPUS, PLACES, SPICE
from pipeline.statistics.bootstrap import MeanSd, over_seeds
from pipeline.statistics.comparisons import Comparison, compare_all, p_value

CONSTANT, MEAN = "constant", "mean"  # also the CSS classes of their rows on the report's page
TOTAL = "total"
HEADINGS = {
    **metric_names.HEADINGS,
    "exact_match": "exact match",
    "distinct_captions": "distinct captions",
    "mean_length": "words a caption",
}
# truth comes first, because a false caption may score well. CIDEr-D over all pairs rewards the caption "there
# is no change"; so CIDEr-D of the changed pairs is next to it
COLUMNS = {
    **{column: HEADINGS[name] for name, column in PLACES.items()},
    **{(TOTAL, metric): HEADINGS.get(metric, metric) for metric in CORPUS},
    ("change", CIDER): f"{CIDER}, changed",
    (TOTAL, SPICE): SPICE,
    (TOTAL, ACCURACY): HEADINGS[ACCURACY],
}
"""Columns of the score table: subset and metric -> heading."""
COUNTS = ("distinct_captions", "mean_length")  # not fractions
Key = tuple[str, str]
"""Subset and metric."""
Record = dict[str, Any]
"""dataset, model, seed (None: not trained), subset, its metrics as fractions, and lines below the table."""
SHARED, CAPTIONS = "shared_notes", "caption_notes"  # lines below the table: of all runs, and of one run
NOT_SCORES = ("dataset", "model", "seed", "subset", SHARED, CAPTIONS)


@dataclass(frozen=True)
class Row:
    """Row of a table: a run, or the mean over a model's seeds."""

    model: str
    seed: str  # text in the column of seeds: the seed, MEAN, or "" for the constant caption
    scores: dict[Key, MeanSd]

    def printed(self, subset: str, metric: str) -> str:
        """Format a score with ± its standard deviation over seeds; NONE if the row lacks the score.

        The score is multiplied by 100, except for the metrics in COUNTS.
        """
        if (subset, metric) not in self.scores:
            return NONE
        return self.scores[subset, metric].printed(1 if metric in COUNTS else 100)


def records(results: Sequence[Results]) -> list[Record]:
    """Return a record per run and subset. For each dataset, the baseline (a constant caption) comes first."""
    all_records: list[Record] = []
    for result in results:
        scored = [
            (CONSTANT, None, result.constant),
            *((run.model, run.seed, run.metrics) for run in result.runs),
        ]
        for model, seed, metrics in scored:
            run = {"dataset": result.dataset, "model": model, "seed": seed}
            for subset, values in metrics.subsets.items():
                overall = metrics.overall | _notes(metrics, seed) if subset == TOTAL else {}
                all_records.append(run | {"subset": subset} | values | overall)
    return all_records


def _notes(metrics: Metrics, seed: int | None) -> dict[str, list[str]]:
    """Return the lines below the table for one run; the constant caption (seed None) has no own line."""
    described = metrics.described
    shared = [*table_notes.of_scope(described), *table_notes.of_constants(described)]
    # of two lines on repetition, the last one is of the changed pairs
    repetition: list[str] = []
    warnings: list[str] = []
    for line in table_notes.of_captions(described) if seed is not None else ():
        (warnings if line.startswith(table_notes.WARNING) else repetition).append(line)
    return {SHARED: shared, CAPTIONS: [*repetition[-1:], *warnings]}


def notes(records: Sequence[Record], dataset: str) -> list[str]:
    """Return the lines below a dataset's table: scored pairs, best constants, and each run's captions."""
    of_dataset = [record for record in records if record["dataset"] == dataset]
    shared = [line for record in of_dataset for line in record.get(SHARED, ())]
    own = [
        f"{record['model']} {record['seed']}: {line}"
        for record in of_dataset
        for line in record.get(CAPTIONS, ())
    ]
    return [*dict.fromkeys(shared), *own]


def rows(records: Sequence[Record], dataset: str) -> list[Row]:
    """Return a dataset's rows: first the baseline (a constant caption), then the seeds of each model.

    A model with several seeds also has a row with their mean.
    """
    runs: dict[str, dict[str, list[Record]]] = {}  # model -> seed -> records
    for record in records:
        if record["dataset"] == dataset:
            seed = "" if record["seed"] is None else str(record["seed"])
            runs.setdefault(record["model"], {}).setdefault(seed, []).append(record)
    all_rows = []
    for model, seeds in runs.items():
        seed_rows = [Row(model, seed, _scores(run_records)) for seed, run_records in seeds.items()]
        all_rows += [*seed_rows, _mean(seed_rows)] if len(seed_rows) > 1 else seed_rows
    return all_rows


def _scores(records: Sequence[Record]) -> dict[Key, MeanSd]:
    return {
        (record["subset"], metric): over_seeds([value])
        for record in records
        for metric, value in record.items()
        if metric not in NOT_SCORES
    }


def _mean(runs: Sequence[Row]) -> Row:
    common = [key for key in runs[0].scores if all(key in run.scores for run in runs)]
    scores = {key: over_seeds([run.scores[key].mean for run in runs]) for key in common}
    return Row(runs[0].model, MEAN, scores)


def of_models(rows: Sequence[Row]) -> list[Row]:
    """Return one row per model: the mean over its seeds, or the row of its only seed."""
    return list({row.model: row for row in rows}.values())


def columns(rows: Sequence[Row]) -> dict[Key, str]:
    """Return (subset, metric) -> heading. A column is left out if no row has its score."""
    return {column: heading for column, heading in COLUMNS.items() if has_score(rows, *column)}


def table(title: str, columns: Mapping[Key, str], rows: Sequence[Row], notes: Sequence[str] = ()) -> Table:
    """Return a table of scores with these columns (key -> heading), and lines below it."""
    seeded = any(row.seed not in ("", MEAN) for row in rows)
    kinds = {index: CONSTANT for index, row in enumerate(rows) if row.model == CONSTANT}
    if seeded:
        kinds |= {index: MEAN for index, row in enumerate(rows) if row.seed == MEAN}
    lines = [[row.model, *[row.seed] * seeded, *(row.printed(*column) for column in columns)] for row in rows]
    headings = ["model", *["seed"] * seeded, *columns.values()]
    return Table(title, headings, lines, notes, texts=1 + seeded, kinds=kinds)


def has_score(rows: Sequence[Row], subset: str, metric: str) -> bool:
    """Return True if any row has a score of this subset and metric."""
    return any((subset, metric) in row.scores for row in rows)


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
    headings = ["models", *(HEADINGS.get(metric, metric) for metric in metrics)]
    return Table("Differences × 100 with their 95 % intervals.", headings, rows)


def _difference(comparison: Comparison) -> str:
    remark = "" if comparison.significant else ", not significant"
    return f"{comparison.printed}\n{p_value(comparison.p)}{remark}"


class _Record(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[str, float]
    dataset: str
    model: str
    seed: int | None
    subset: str
    shared_notes: list[str] = []
    caption_notes: list[str] = []


def read(path: Path) -> list[Record]:
    """Read the records of a scores.json. Raises InputError if the file is missing or malformed."""
    stored_records: list[Record] = read_json(path, REMEDY)
    checked(list[_Record], stored_records, str(path), REMEDY)
    return stored_records
