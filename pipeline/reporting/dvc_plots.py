"""Make tables for `dvc plots show`.

Each table contains all runs, because DVC would draw tables of single runs separately. A row of a table is a
point of a plot. The column `run` has the name of the row's run: dataset/model/seed, or dataset/constant for
the constant caption. Scores are fractions.
"""

from collections.abc import Sequence
from typing import Any

from pipeline.datasets.schema import CHANGE_TYPES
from pipeline.reporting.dataset_results import Results
from pipeline.scoring.metric_names import CIDER

Rows = list[dict[str, Any]]
VALIDATION, LOSSES, BY_TYPE = "validation.json", "losses.json", "types.json"
TYPES = (*CHANGE_TYPES, "no_change")


def tables(results: Sequence[Results]) -> dict[str, Rows]:
    """Return file name -> table of all runs: validation curves, loss curves, scores by type of change."""
    runs = {f"{result.dataset}/{run.model}/{run.seed}": run for result in results for run in result.runs}
    scored = {f"{result.dataset}/constant": result.constant for result in results}
    scored |= {name: run.metrics for name, run in runs.items()}
    rows_by_file: dict[str, Rows] = {VALIDATION: [], LOSSES: [], BY_TYPE: []}
    for name, run in runs.items():
        curves = run.phases["train"]
        columns = [(VALIDATION, curves.validation, CIDER, "validation", CIDER)]
        columns += [
            (LOSSES, curves.losses, term, term, "loss") for term in curves.losses if term != "iteration"
        ]
        for file, curve, column, curve_name, key in columns:
            rows_by_file[file] += [
                {"run": name, "curve": curve_name, "iteration": iteration, key: number}
                for iteration, number in zip(curve["iteration"], curve[column], strict=True)
            ]
    rows_by_file[BY_TYPE] = [
        {"run": name, "type": kind, CIDER: metrics[kind][CIDER]}
        for name, metrics in scored.items()
        for kind in TYPES
        if kind in metrics
    ]
    return rows_by_file
