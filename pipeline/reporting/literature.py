"""The papers' figures beside ours, with marks that say which conditions differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase

from pipeline import published
from pipeline.params import Params
from pipeline.published import Published
from pipeline.reporting.tables import Row

METRICS = ("BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D", "SPICE")  # that papers print


@dataclass(frozen=True)
class Beside:
    """A part of the test split: our models' rows, and the papers'."""

    subset: str
    metrics: list[str]  # that some paper prints of it
    ours: list[Row]
    theirs: list[tuple[Published, str]]  # and its marks

    def printed(self, row: Published, metric: str) -> str:
        """A published score x 100; – where the paper has none."""
        value = row.values.get(metric)
        return "–" if value is None else f"{100 * value:.1f}"


@dataclass(frozen=True)
class Literature:
    """All that papers print of a dataset."""

    parts: list[Beside]
    marks: dict[str, str]  # a letter -> the condition that differs from ours


def literature(dataset: str, rows: Sequence[Row], params: Params) -> Literature:
    """Without parts where no paper prints anything of `dataset`; `rows` are one a model."""
    found = published.rows(dataset)
    differing = {id(row): published.differs(row, params) for row in found}
    conditions = dict.fromkeys(condition for own in differing.values() for condition in own)
    letters = {condition: _letter(place) for place, condition in enumerate(conditions)}
    parts = []
    for subset in dict.fromkeys(row.subset for row in found):
        theirs = [row for row in found if row.subset == subset]
        metrics = [m for m in METRICS if any(row.values.get(m) is not None for row in theirs)]
        marked = [(row, " ".join(letters[condition] for condition in differing[id(row)])) for row in theirs]
        parts.append(Beside(subset, metrics, list(rows), marked))
    return Literature(parts, {letter: condition for condition, letter in letters.items()})


def _letter(place: int) -> str:
    return ascii_lowercase[place % 26] * (1 + place // 26)
