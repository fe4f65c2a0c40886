"""The scores as one flat list of records, and the rows that the page and the terminal print of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline.io.inputs import read_json
from pipeline.io.records import checked
from pipeline.reporting.dataset_results import REMEDY, Results
from pipeline.scoring import metric_names
from pipeline.scoring.metric_names import ACCURACY, CIDER, CORPUS, PLACES, SPICE
from pipeline.statistics.seeds import MeanSd, over_seeds

CONSTANT = "constant"
TOTAL = "total"
# of the score table. Truth stands first: a caption may score well and be made up. Over all pairs CIDEr-D
# flatters whoever says "there is no change"; that of the changes stands beside it, therefore
COLUMNS = (
    *PLACES.values(),
    *((TOTAL, metric) for metric in CORPUS),
    ("change", CIDER),
    (TOTAL, SPICE),
    (TOTAL, ACCURACY),
)
HEADINGS = {
    **metric_names.HEADINGS,
    "exact_match": "exact match",
    "distinct_captions": "distinct captions",
    "mean_length": "words a caption",
}
COUNTS = ("distinct_captions", "mean_length")  # which are no fractions
Key = tuple[str, str]
"""Subset and metric."""
Record = dict[str, Any]
"""dataset, model, seed (None: not trained), subset, and its metrics as fractions."""


@dataclass(frozen=True)
class Row:
    """One line of a table: a run, or the mean over a model's seeds."""

    model: str
    seed: int | None  # None of the constant caption and of a mean
    runs: int  # averaged
    scores: dict[Key, MeanSd]

    @property
    def run(self) -> str:
        """What stands in the seed's column."""
        if self.runs > 1:
            return "mean"
        return "" if self.seed is None else str(self.seed)

    def printed(self, subset: str, metric: str) -> str:
        """A score x 100 as papers print it, with ± its deviation over seeds; – where there is none."""
        if (subset, metric) not in self.scores:
            return "–"
        return self.scores[subset, metric].printed(1 if metric in COUNTS else 100)


def records(results: Sequence[Results]) -> list[Record]:
    """A record for each cell and subset; the constant caption's come first of a dataset's."""
    found: list[Record] = []
    for each in results:
        cells = [(CONSTANT, None, each.constant), *((c.model, c.seed, c.metrics) for c in each.cells)]
        for model, seed, metrics in cells:
            cell = {"dataset": each.dataset, "model": model, "seed": seed}
            for subset, values in metrics.subsets.items():
                found.append(cell | {"subset": subset} | values | (metrics.whole if subset == TOTAL else {}))
    return found


def rows(records: Sequence[Record], dataset: str) -> list[Row]:
    """A dataset's rows: the constant caption, then each model's seeds and, of several, their mean."""
    runs: dict[str, dict[int | None, list[Record]]] = {}
    for record in records:
        if record["dataset"] == dataset:
            runs.setdefault(record["model"], {}).setdefault(record["seed"], []).append(record)
    found = []
    for model, seeds in runs.items():
        own = [Row(model, seed, 1, _scores(records)) for seed, records in seeds.items()]
        found += [*own, _mean(own)] if len(own) > 1 else own
    return found


def _scores(records: Sequence[Record]) -> dict[Key, MeanSd]:
    return {
        (record["subset"], metric): over_seeds([value])
        for record in records
        for metric, value in record.items()
        if metric not in ("dataset", "model", "seed", "subset")
    }


def _mean(runs: Sequence[Row]) -> Row:
    """Means and sample standard deviations, of the scores that every run has."""
    common = [key for key in runs[0].scores if all(key in run.scores for run in runs)]
    scores = {key: over_seeds([run.scores[key].mean for run in runs]) for key in common}
    return Row(runs[0].model, None, len(runs), scores)


def of_models(rows: Sequence[Row]) -> list[Row]:
    """One row a model: its mean where it was trained with several seeds."""
    return list({row.model: row for row in rows}.values())


def columns(rows: Sequence[Row]) -> dict[Key, str]:
    """(subset, metric) -> its heading, of the columns that some row has a score of."""
    return {
        (subset, metric): heading(subset, metric) for subset, metric in COLUMNS if has(rows, subset, metric)
    }


def heading(subset: str, metric: str) -> str:
    """A column's heading: what is true of what, or a score, of which pairs where not of all."""
    told = {place: HEADINGS[name] for name, place in PLACES.items()}
    of = "" if subset == TOTAL else f" {subset}s"
    return told.get((subset, metric), HEADINGS.get(metric, metric) + of)


def has(rows: Sequence[Row], subset: str, metric: str) -> bool:
    """Whether any of the rows has that score."""
    return any((subset, metric) in row.scores for row in rows)


class _Record(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[str, float]
    dataset: str
    model: str
    seed: int | None
    subset: str


def read(path: Path) -> list[Record]:
    """The records of a scores.json. Raises InputError where it is missing or something else."""
    found: list[Record] = read_json(path, REMEDY)
    checked(list[_Record], found, str(path), REMEDY)
    return found
