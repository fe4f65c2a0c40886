"""The matrix of edits and metrics: share of the score that is kept, and how often it falls.

For each edit and metric there are two numbers, with 95 % intervals from a bootstrap over scenes:

- kept: sum of the edited captions' scores, divided by the sum of the right captions' scores
- below: share of cases in which the edited caption scores below the right one; equal scores count half
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel

from pipeline.reporting.tables import NONE, Table
from pipeline.sensitivity import text_edits
from pipeline.sensitivity.edited_captions import Case, EditedCaptions
from pipeline.sensitivity.grammar_edits import EDITS
from pipeline.statistics.bootstrap import draws

RESAMPLES, BOOTSTRAP_SEED = 2000, 0
DIGITS = 4
BLIND = 0.9  # share of its score that a metric keeps of a wrong caption; from here on, it does not see it
HARSH = 0.7  # share of its score that a metric keeps of a right caption; below, it takes it for wrong


class Interval(BaseModel):
    """A number with its 95 % interval over scenes."""

    value: float
    low: float
    high: float

    @property
    def printed(self) -> str:
        return f"{short(self.value)} ({short(self.low)} to {short(self.high)})"


class Cell(BaseModel):
    """The numbers of one metric for one edit; None if the right captions have no score above 0."""

    kept: Interval | None
    below: Interval


class EditRow(BaseModel):
    """An edit, with the numbers of all metrics. `kinds` are the kinds of change, of `kind of change` only."""

    edit: str
    is_wrong: bool
    kinds: tuple[str, str] = ("", "")  # stated by the right caption and by the edited one
    cases: int
    metrics: dict[str, Cell]


class Matrix(BaseModel):
    """The result of a dataset: rows of edits, and rows of each kind of change into each other one."""

    dataset: str
    against: str  # references that the captions are scored against: "others" or "itself"
    scenes: int
    captions: int
    metrics: list[str]  # in the order of the table's columns
    rows: list[EditRow]
    kinds: list[EditRow]


@dataclass(frozen=True)
class _Group:
    edit: str
    is_wrong: bool
    kinds: tuple[str, str]
    cases: Sequence[Case]


def of_scores(
    dataset: str, against: str, captions: EditedCaptions, scores: Mapping[str, np.ndarray]
) -> Matrix:
    """Return the matrix. `scores`: metric -> scores of all captions, in the order of `captions.scored`."""
    by_edit, by_kinds = defaultdict[str, list[Case]](list), defaultdict[tuple[str, str], list[Case]](list)
    for case in captions.cases:
        by_edit[case.edit].append(case)
        by_kinds[case.kinds].append(case)
    names = [*(edit.name for edit in EDITS), *(edit.name for edit in text_edits.EDITS)]
    order = [*dict.fromkeys(names)]
    rows = [
        _Group(name, own[0].is_wrong, ("", ""), own)
        for name, own in sorted(by_edit.items(), key=lambda each: order.index(each[0]))
    ]
    kinds = [
        _Group(own[0].edit, True, between, own) for between, own in sorted(by_kinds.items()) if between[1]
    ]
    made = _rows([*rows, *kinds], captions, scores)
    return Matrix(
        dataset=dataset,
        against=against,
        scenes=captions.scenes,
        captions=len(captions.scored),
        metrics=[*scores],
        rows=made[: len(rows)],
        kinds=made[len(rows) :],
    )


def _rows(
    groups: Sequence[_Group], captions: EditedCaptions, scores: Mapping[str, np.ndarray]
) -> list[EditRow]:
    positions = {key: position for position, key in enumerate(captions.scored)}
    scenes = {name: n for n, name in enumerate(dict.fromkeys(case.scene_id for case in captions.cases))}
    columns = []  # of each group and metric: sums over a scene of edited and right scores, of falls, of cases
    for group in groups:
        scene = np.array([scenes[case.scene_id] for case in group.cases])
        edited, right = (
            np.array([positions[getattr(case, name)] for case in group.cases]) for name in ("edited", "right")
        )
        for values in scores.values():
            low, high = values[edited], values[right]
            falls = (low < high) + 0.5 * (low == high)
            for numbers in (low, high, falls, np.ones(len(scene))):
                columns.append(np.bincount(scene, numbers, len(scenes)))
    sums = np.stack(columns, 1)
    drawn = [np.ones((1, len(scenes))), *draws(len(scenes), RESAMPLES, BOOTSTRAP_SEED)]
    drawn_sums = np.concatenate([counts @ sums for counts in drawn])
    parts = iter(np.moveaxis(drawn_sums.reshape(len(drawn_sums), -1, 4), 1, 0))
    return [
        EditRow(
            edit=group.edit,
            is_wrong=group.is_wrong,
            kinds=group.kinds,
            cases=len(group.cases),
            metrics={name: _cell(next(parts)) for name in scores},
        )
        for group in groups
    ]


def _cell(sums: np.ndarray) -> Cell:
    """Return an edit's numbers: sums of edited and right scores, falls and cases, (1 + RESAMPLES, 4)."""
    edited, right, falls, cases = sums.T
    below = _interval(falls, cases)
    assert below is not None  # the first row has cases
    return Cell(kept=_interval(edited, right), below=below)


def _interval(numerator: np.ndarray, denominator: np.ndarray) -> Interval | None:
    if denominator[0] <= 0:
        return None
    known = denominator > 0
    ratios = numerator[known] / denominator[known]
    low, high = np.quantile(ratios[1:], [0.025, 0.975]) if len(ratios) > 1 else (ratios[0], ratios[0])
    value, low, high = (round(float(number), DIGITS) for number in (ratios[0], low, high))
    return Interval(value=value, low=low, high=high)


def table(matrix: Matrix, name: str, wrong: bool) -> Table:
    """Return a table of the numbers `name` ("kept" or "below") for wrong, or for right, edits."""
    headings = ["wrong" if wrong else "right", "cases", *matrix.metrics]
    rows = [
        [row.edit, f"{row.cases:,}", *(_printed(getattr(row.metrics[one], name)) for one in matrix.metrics)]
        for row in matrix.rows
        if row.is_wrong is wrong
    ]
    return Table("", headings, rows)


def metric_table(matrix: Matrix, metric: str) -> Table:
    """Return a table of both numbers of a metric for all edits, with their 95 % intervals over scenes."""
    cells = [(row, row.metrics[metric]) for row in matrix.rows]
    rows = [
        [
            row.edit,
            "yes" if row.is_wrong else "no",
            f"{row.cases:,}",
            cell.kept.printed if cell.kept else NONE,
            cell.below.printed,
        ]
        for row, cell in cells
    ]
    return Table(metric, ["caption", "wrong", "cases", "kept", "below"], rows, texts=2)


def kinds_table(matrix: Matrix, metric: str) -> Table:
    """Return a table of the share that a metric keeps if one kind of change is stated instead of another."""
    names = [*dict.fromkeys(row.kinds[0] for row in matrix.kinds)]
    kept = {row.kinds: _printed(row.metrics[metric].kept) for row in matrix.kinds}
    rows = [[name, *(kept.get((name, other), NONE) for other in names)] for name in names]
    return Table(
        f"{metric}: kept if the caption of the row states the kind of the column", ["", *names], rows
    )


def sentences(matrix: Matrix) -> list[str]:
    return [_sentence(matrix, metric) for metric in matrix.metrics]


def _sentence(matrix: Matrix, metric: str) -> str:
    kept = {row.edit: (row.is_wrong, row.metrics[metric].kept) for row in matrix.rows}
    shares = {edit: (wrong, one.value) for edit, (wrong, one) in kept.items() if one is not None}
    if not shares:
        return f"{metric} gives the right captions no score, so nothing is known of it."
    unseen = [edit for edit, (wrong, share) in shares.items() if wrong and share >= BLIND]
    harsh = [edit for edit, (wrong, share) in shares.items() if not wrong and share < HARSH]
    least = f"keeps {BLIND:.0%} or more of its score with".replace("%", " %")
    most = f"keeps less than {HARSH:.0%} with".replace("%", " %")
    named = {edit: f"{edit} ({short(share)})" for edit, (_, share) in shares.items()}
    blind = f"{least} {_listed(unseen, named)}" if unseen else "sees every mistake"
    strict = (
        f"it {most} {_listed(harsh, named)}, although nothing is wrong"
        if harsh
        else ("it accepts every right caption")
    )
    return f"{metric} {blind}; {strict}."


def _listed(edits: Sequence[str], named: Mapping[str, str]) -> str:
    return ", ".join(named[edit] for edit in edits)


def _printed(interval: Interval | None) -> str:
    return NONE if interval is None else short(interval.value)


def short(value: float) -> str:
    """Format a share with two decimals, without the 0 before the point: .93; 1 and more keep it."""
    text = f"{value:.2f}"
    return text.removeprefix("0") if text.startswith("0.") else text
