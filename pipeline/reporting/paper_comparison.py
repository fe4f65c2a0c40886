"""Put the papers' scores next to our scores. Letters mark the conditions that differ."""

from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any

from pipeline.config.params import Params
from pipeline.reporting.dataset_results import Results
from pipeline.reporting.overview_table import TOTAL, Row
from pipeline.reporting.paper_results import Published, differs
from pipeline.reporting.tables import Table, number
from pipeline.scoring.metric_names import PRINTED
from pipeline.scoring.subsets import subsets


def literature(results: Results, rows: Sequence[Row], params: Params) -> dict[str, Any]:
    """Return the data of the page's comparison of our scores (a row per model) with the papers' scores.

    `parts`: subset of the test pairs -> table. `sources`: the papers. `marks`: letter in the tables -> a
    condition in which papers and our runs differ.
    """
    sizes = {TOTAL: len(results.test)} | {name: len(ids) for name, ids in subsets(results.test).items()}
    published = [row for row in results.published if not row.ablation]
    sources = list(dict.fromkeys(row.source for row in published))
    letters: dict[str, str] = {}
    theirs: dict[str, list[tuple[Published, list[str]]]] = {}
    for row in published:
        conditions = differs(row, params, sizes.get(row.subset))
        marks = " ".join(letters.setdefault(own, _letter(len(letters))) for own in conditions)
        method = f"{row.method} ({row.note})" if row.note else row.method
        line = [method, str(sources.index(row.source) + 1), marks]
        theirs.setdefault(row.subset, []).append((row, line))
    return {
        "parts": {subset: _table(subset, rows, own) for subset, own in theirs.items()},
        "sources": sources,
        "marks": {letter: condition for condition, letter in letters.items()},
    }


def _table(subset: str, ours: Sequence[Row], theirs: Sequence[tuple[Published, list[str]]]) -> Table:
    metrics = [m for m in PRINTED if any(row.values[m] is not None for row, _ in theirs)]
    lines = [[row.model, "here", "", *(row.printed(subset, metric) for metric in metrics)] for row in ours]
    lines += [[*line, *(number(row.values[metric]) for metric in metrics)] for row, line in theirs]
    title = f"{subset.replace('_', ' ').capitalize()}: ours, then the papers’. Every score × 100."
    headings = ["model", "source", "differs in", *metrics]
    return Table(title, headings, lines, texts=3, kinds=dict.fromkeys(range(len(ours)), "ours"))


def _letter(place: int) -> str:
    return ascii_lowercase[place % 26] * (1 + place // 26)
