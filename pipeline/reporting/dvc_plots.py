"""What `dvc plots show` draws: one table for all cells, where DVC alone would draw each cell by itself.

A row is a point; `cell` says whose: dataset/model/seed, or dataset/constant. Scores are fractions.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.datasets.schema import CHANGE_TYPES
from pipeline.outputs import Contents
from pipeline.params import Params
from pipeline.reporting.dataset_results import read_curve, read_metrics

Rows = list[dict[str, Any]]
VALIDATION, LOSSES, BY_TYPE = "validation.json", "losses.json", "types.json"
CONTENTS = Contents(BY_TYPE, (VALIDATION, LOSSES))
TYPES = (*CHANGE_TYPES, "no_change")


def tables(results: Path, params: Params) -> dict[str, Rows]:
    """File name -> rows, of the cells that `params` lists, from the folder `results` of the repository.

    Raises InputError naming the first file that is missing, or is not what its stage writes.
    """
    return {
        VALIDATION: [row for cell in _cells(params) for row in _validation(results, cell)],
        LOSSES: [row for cell in _cells(params) for row in _losses(results, cell)],
        BY_TYPE: [row for cell in _scored(params) for row in _types(results, cell)],
    }


def _cells(params: Params) -> Iterator[str]:
    for dataset in params.datasets:
        for model in params.models:
            yield from (f"{dataset}/{model}/{seed}" for seed in params.seeds)


def _scored(params: Params) -> list[str]:
    return [*(f"{dataset}/constant" for dataset in params.datasets), *_cells(params)]


def _validation(results: Path, cell: str) -> Iterator[dict[str, Any]]:
    curve = read_curve(results / "curves" / cell / "validation.csv", "iteration", "CIDEr-D")
    for iteration, score in zip(curve["iteration"], curve["CIDEr-D"], strict=True):
        yield {"cell": cell, "curve": "validation", "iteration": iteration, "CIDEr-D": score}


def _losses(results: Path, cell: str) -> Iterator[dict[str, Any]]:
    curve = read_curve(results / "curves" / cell / "loss.csv", "iteration")
    for term in (name for name in curve if name != "iteration"):
        for iteration, loss in zip(curve["iteration"], curve[term], strict=True):
            yield {"cell": cell, "curve": term, "iteration": iteration, "loss": loss}


def _types(results: Path, cell: str) -> Iterator[dict[str, Any]]:
    subsets = read_metrics(results / "cells" / cell / "metrics.json").subsets
    for kind in TYPES:
        if kind in subsets:
            yield {"cell": cell, "type": kind, "CIDEr-D": subsets[kind]["CIDEr-D"]}
