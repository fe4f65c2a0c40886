"""The scores as one flat list of records, and the rows that the page and the terminal print of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from pipeline.errors import InputError
from pipeline.inputs import read_json
from pipeline.reporting.dataset_results import REMEDY, Metrics, Results
from pipeline.scoring import metric_names
from pipeline.scoring.metric_names import ACCURACY, CIDER, CORPUS, PLACES, SPICE
from pipeline.statistics import over_seeds

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
Record = dict[str, Any]
"""dataset, model, seed (None: not trained), subset, and its metrics as fractions."""


@dataclass(frozen=True)
class Row:
    """One line of a table: a run, or the mean over a model's seeds."""

    model: str
    seed: int | None  # None of the constant caption and of a mean
    runs: int  # averaged
    scores: dict[tuple[str, str], tuple[float, float | None]]  # (subset, metric) -> mean, deviation

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
        factor = 1 if metric in COUNTS else 100
        mean, deviation = self.scores[subset, metric]
        return f"{factor * mean:.1f}" + ("" if deviation is None else f" ± {factor * deviation:.1f}")


def records(results: Sequence[Results]) -> list[Record]:
    """A record for each cell and subset; the constant caption's come first of a dataset's."""
    return [record for each in results for record in _of_dataset(each)]


def _of_dataset(results: Results) -> list[Record]:
    found = _of_cell(results.constant, dataset=results.dataset, model=CONSTANT, seed=None)
    for cell in results.cells:
        found += _of_cell(cell.metrics, dataset=results.dataset, model=cell.model, seed=cell.seed)
    return found


def _of_cell(metrics: Metrics, **cell: Any) -> list[Record]:
    found = [cell | {"subset": subset} | values for subset, values in metrics.subsets.items()]
    next(record for record in found if record["subset"] == TOTAL).update(metrics.whole)
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


def _scores(records: Sequence[Record]) -> dict[tuple[str, str], tuple[float, float | None]]:
    return {
        (record["subset"], metric): (value, None)
        for record in records
        for metric, value in record.items()
        if metric not in ("dataset", "model", "seed", "subset")
    }


def _mean(runs: Sequence[Row]) -> Row:
    """Means and sample standard deviations, of the scores that every run has."""
    common = [key for key in runs[0].scores if all(key in run.scores for run in runs)]
    spread = {key: over_seeds([run.scores[key][0] for run in runs]) for key in common}
    return Row(runs[0].model, None, len(runs), {key: (own.mean, own.sd) for key, own in spread.items()})


def of_models(rows: Sequence[Row]) -> list[Row]:
    """One row a model: its mean where it was trained with several seeds."""
    return list({row.model: row for row in rows}.values())


def columns(rows: Sequence[Row]) -> dict[tuple[str, str], str]:
    """(subset, metric) -> its heading, of the columns that some row has a score of."""
    return {
        (subset, metric): heading(subset, metric) for subset, metric in COLUMNS if has(rows, subset, metric)
    }


def heading(subset: str, metric: str) -> str:
    """A column's heading: what is true of what, or a score, of which pairs where not of all."""
    told = {place: HEADINGS[name] for name, place in PLACES.items()}
    if (subset, metric) in told:
        return told[subset, metric]
    return HEADINGS.get(metric, metric) + ("" if subset == TOTAL else f" {subset}s")


def has(rows: Sequence[Row], subset: str, metric: str) -> bool:
    """Whether any of the rows has that score."""
    return any((subset, metric) in row.scores for row in rows)


def read(path: Path) -> list[Record]:
    """The records of a scores.json. Raises InputError where it is missing or something else."""
    found = read_json(path, REMEDY)
    if not isinstance(found, list) or not all(_is_record(record) for record in found):
        raise InputError(f"{path} is not a list of scores; remove it and {REMEDY} again")
    return found


def _is_record(record: Any) -> bool:
    if not isinstance(record, dict) or not {"dataset", "model", "seed", "subset"} <= record.keys():
        return False
    kinds: dict[str, type | tuple[type, ...]] = {
        "dataset": str,
        "model": str,
        "subset": str,
        "seed": (int, NoneType),
    }
    return all(isinstance(value, kinds.get(key, (int, float))) for key, value in record.items())
