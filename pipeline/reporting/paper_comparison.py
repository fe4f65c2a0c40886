"""The papers' figures beside ours, with marks that say which conditions differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase

from pipeline.params import Params
from pipeline.reporting.dataset_results import Results
from pipeline.reporting.overview_table import TOTAL, Row
from pipeline.reporting.paper_results import differs
from pipeline.scoring.metric_names import PRINTED
from pipeline.scoring.subsets import subsets


@dataclass(frozen=True)
class Line:
    """A published row as the page prints it."""

    method: str
    source: int  # its number among the sources
    values: dict[str, float | None]  # fractions
    marks: str

    def printed(self, metric: str) -> str:
        """A score x 100; – where the paper has none."""
        value = self.values[metric]
        return "–" if value is None else f"{100 * value:.1f}"


@dataclass(frozen=True)
class Beside:
    """A part of the test split: our models' rows, and the papers'."""

    subset: str
    metrics: list[str]  # that some paper prints of it
    ours: list[Row]
    theirs: list[Line]


@dataclass(frozen=True)
class Literature:
    """All that papers print of a dataset; no parts where they print nothing."""

    parts: list[Beside]
    sources: list[str]
    marks: dict[str, str]  # a letter -> the condition that differs from ours


def literature(results: Results, rows: Sequence[Row], params: Params) -> Literature:
    """Each subset that some paper reports; `rows` are ours, one a model."""
    sizes = {TOTAL: len(results.test)} | {name: len(ids) for name, ids in subsets(results.test).items()}
    published = [row for row in results.published if not row.ablation]
    differing = [differs(row, params, sizes.get(row.subset)) for row in published]
    conditions = dict.fromkeys(condition for own in differing for condition in own)
    letters = {condition: _letter(place) for place, condition in enumerate(conditions)}
    sources = list(dict.fromkeys(row.source for row in published))
    lines: dict[str, list[Line]] = {}
    for row, own in zip(published, differing, strict=True):
        marks = " ".join(letters[condition] for condition in own)
        method = f"{row.method} ({row.note})" if row.note else row.method
        lines.setdefault(row.subset, []).append(
            Line(method, sources.index(row.source) + 1, row.values, marks)
        )
    return Literature(
        [Beside(subset, _reported(theirs), list(rows), theirs) for subset, theirs in lines.items()],
        sources,
        {letter: condition for condition, letter in letters.items()},
    )


def _reported(lines: Sequence[Line]) -> list[str]:
    return [metric for metric in PRINTED if any(line.values[metric] is not None for line in lines)]


def _letter(place: int) -> str:
    """a to z, then aa, bb …"""
    return ascii_lowercase[place % 26] * (1 + place // 26)
