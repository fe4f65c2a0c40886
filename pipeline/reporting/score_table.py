"""The table of scores: a row for each run, subset of the test pairs, and metric. Every table is made from it.

Its columns are `run` (name of the run), what the run is (such as `model` and `seed`), `subset`, `metric` and
`value`. A cell of a table of means is a MeanSd, or NaN if a run of the row lacks the score.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from pandas import DataFrame

from pipeline.io import content_hashes
from pipeline.reporting.tables import NONE
from pipeline.scoring import table_notes
from pipeline.scoring.metric_names import COUNTS, TOTAL
from pipeline.statistics.bootstrap import MeanSd, over_seeds

Column = tuple[str, str]
"""Subset of the test pairs, and metric."""
NOT_SCORES = ("scorers", content_hashes.KEY, *table_notes.KEYS)  # keys of metrics.json


def of_metrics(metrics: Mapping[str, Any], **run: Any) -> DataFrame:
    """Return the table of scores of one metrics.json, with a column for each item of `run`."""
    groups = {name: values for name, values in metrics.items() if name not in NOT_SCORES}
    subsets: dict[str, dict[str, Any]] = {TOTAL: {}}
    subsets |= {name: values for name, values in groups.items() if isinstance(values, dict)}
    subsets[TOTAL] = subsets[TOTAL] | {name: value for name, value in groups.items() if name not in subsets}
    return of_subsets(subsets, **run)


def of_subsets(subsets: Mapping[str, Mapping[str, Any]], **run: Any) -> DataFrame:
    """Return the table of scores of one run from subset -> metric -> score. What is no number is left out."""
    rows = [
        (*run.values(), subset, metric, float(value))
        for subset, values in subsets.items()
        for metric, value in values.items()
        if isinstance(value, int | float)
    ]
    return DataFrame(rows, columns=[*run, "subset", "metric", "value"])


def means(scores: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return MeanSd over runs, a row for each value of `by`, a column for each (subset, metric).

    A cell is NaN if one of the row's runs lacks the score.
    """
    keys = [*by, "subset", "metric"]
    values = scores.groupby(keys, sort=False, dropna=False)["value"].agg(list).map(over_seeds)
    wide = values.unstack(["subset", "metric"], sort=False)
    runs = scores.groupby([*by], sort=False, dropna=False)["run"].nunique()
    found = wide.map(lambda cell: cell.runs if isinstance(cell, MeanSd) else 0)
    return wide.where(found.eq(runs, axis=0))


def score(row: "pd.Series[Any]", column: Column) -> MeanSd | None:
    """Return the score of a row of `means`; None if it has no such score."""
    cell = row.get(column)
    return cell if isinstance(cell, MeanSd) else None


def printed(row: "pd.Series[Any]", column: Column) -> str:
    """Format a score of a row of `means`, × 100 except for counts, with ± its sd; NONE without a score."""
    found = score(row, column)
    return NONE if found is None else found.printed(1 if column[1] in COUNTS else 100)


def has_score(scores: DataFrame, subset: str, metric: str) -> bool:
    return bool(((scores["subset"] == subset) & (scores["metric"] == metric)).any())
