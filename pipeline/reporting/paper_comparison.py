"""The papers' figures beside ours, with marks that say which conditions differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

from pipeline.config.params import Params
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


def literature(results: Results, rows: Sequence[Row], params: Params) -> dict[str, Any]:
    """What papers print of each subset beside `rows`, ours, one a model; no `parts` where they print nothing.

    `marks` says what the letters at a paper's line stand for: conditions that differ from ours.
    """
    sizes = {TOTAL: len(results.test)} | {name: len(ids) for name, ids in subsets(results.test).items()}
    published = [row for row in results.published if not row.ablation]
    sources = list(dict.fromkeys(row.source for row in published))
    letters: dict[str, str] = {}
    lines: dict[str, list[Line]] = {}
    for row in published:
        conditions = differs(row, params, sizes.get(row.subset))
        marks = " ".join(letters.setdefault(own, _letter(len(letters))) for own in conditions)
        method = f"{row.method} ({row.note})" if row.note else row.method
        line = Line(method, sources.index(row.source) + 1, row.values, marks)
        lines.setdefault(row.subset, []).append(line)
    return {
        "parts": [
            {
                "subset": subset,
                "metrics": [m for m in PRINTED if any(line.values[m] is not None for line in theirs)],
                "ours": rows,
                "theirs": theirs,
            }
            for subset, theirs in lines.items()
        ],
        "sources": sources,
        "marks": {letter: condition for condition, letter in letters.items()},
    }


def _letter(place: int) -> str:
    """a to z, then aa, bb …"""
    return ascii_lowercase[place % 26] * (1 + place // 26)
