"""Read the learning curves of a run (CSV files), and check that they belong to the run's weights."""

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

from pipeline.io.errors import InputError
from pipeline.io.inputs import read_text, read_yaml
from pipeline.io.records import plain

MODEL = "model.yaml"  # as in trained_model.py, which this module does not import: it loads torch
REMEDY = "run `dvc repro` to make it"
Curve = dict[str, list[float]]
"""Column -> values, the iteration first."""


@dataclass(frozen=True)
class Snapshot:
    """Entries of model.yaml: iteration and validation score of the saved weights (0 and NaN if imported)."""

    iteration: int
    validation: float


def read_curve(path: Path, *columns: str) -> Curve:
    """Read a CSV file of numbers that has at least `columns`. The curves of imported weights have no rows."""
    try:
        names, *rows = csv.reader(io.StringIO(read_text(path, REMEDY)))
    except (csv.Error, ValueError):  # ValueError: the file is empty
        names, rows = [], []
    if not set(columns) <= set(names) or len(set(names)) < len(names):
        raise _wrong(path, f"is not a learning curve with the columns {', '.join(columns)}, each once")
    if wrong_line := next((number for number, row in enumerate(rows, 2) if len(row) != len(names)), None):
        raise _wrong(path, f"has another number of columns in line {wrong_line} than in its first")
    return {name: [_number(path, name, row[index]) for row in rows] for index, name in enumerate(names)}


def _number(path: Path, column: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise _wrong(path, f"has {text[:80]!r} in the column {column}, not a number") from None
    if math.isinf(number) or (column == "iteration" and not (number.is_integer() and number >= 0)):
        raise _wrong(path, f"has {text[:80]!r} in the column {column}")
    return number


def check(folder: Path, weights: Path) -> None:
    """Raise InputError if validation.csv lacks the iteration and score that the folder `weights` records."""
    if not (weights / MODEL).is_file():
        return
    record = read_yaml(weights / MODEL, REMEDY, foreign=True)
    snapshot = plain(weights / MODEL, Snapshot, record, REMEDY, extra="ignore")
    if snapshot.iteration == 0:  # imported
        return
    path = folder / "validation.csv"
    curve = read_curve(path, "iteration")
    rows = zip(*curve.values(), strict=True)
    rows_of_iteration = [row[1:] for row in rows if row[0] == snapshot.iteration]
    if not any(math.isclose(value, snapshot.validation) for row in rows_of_iteration for value in row):
        raise _wrong(path, f"is not of the weights in {weights}")


def _wrong(path: Path, fault: str) -> InputError:
    return InputError(f"{path} {fault}; remove it and {REMEDY} again")
