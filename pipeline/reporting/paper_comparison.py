"""Put the papers' scores next to our scores. Letters mark the conditions that differ."""

from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any

from pandas import DataFrame

from pipeline.config.params import Params
from pipeline.reporting.dataset_results import Results
from pipeline.reporting.paper_results import PaperRow, differing_conditions
from pipeline.reporting.score_table import means, printed
from pipeline.reporting.tables import Table, number
from pipeline.scoring.metric_names import PRINTED, TOTAL
from pipeline.scoring.subsets import subsets


def literature(results: Results, params: Params) -> dict[str, Any]:
    """Return the data of the page's tables that compare our scores with the scores of papers.

    parts: subset of the test pairs -> its table, in which each of our models has a row
    sources: the papers
    marks: letter in the tables -> condition in which a paper differs from our runs
    """
    sizes = {TOTAL: len(results.test)} | {name: len(ids) for name, ids in subsets(results.test).items()}
    published = [row for row in results.published if not row.ablation]
    sources = list(dict.fromkeys(row.source for row in published))
    letters: dict[str, str] = {}
    published_lines: dict[str, list[tuple[PaperRow, list[str]]]] = {}
    for row in published:
        conditions = differing_conditions(row, params, sizes.get(row.subset))
        marks = " ".join(letters.setdefault(condition, _letter(len(letters))) for condition in conditions)
        method = f"{row.method} ({row.note})" if row.note else row.method
        line = [method, str(sources.index(row.source) + 1), marks]
        published_lines.setdefault(row.subset, []).append((row, line))
    ours = means(results.scores[results.scores["seed"] != ""], ["model"])
    return {
        "parts": {subset: _table(subset, ours, lines) for subset, lines in published_lines.items()},
        "sources": sources,
        "marks": {letter: condition for condition, letter in letters.items()},
    }


def _table(subset: str, ours: DataFrame, published_lines: Sequence[tuple[PaperRow, list[str]]]) -> Table:
    metrics = [
        metric for metric in PRINTED if any(row.values[metric] is not None for row, _ in published_lines)
    ]
    lines = [
        [str(model), "here", "", *(printed(row, (subset, metric)) for metric in metrics)]
        for model, row in ours.iterrows()
    ]
    lines += [[*line, *(number(row.values[metric]) for metric in metrics)] for row, line in published_lines]
    title = f"{subset.replace('_', ' ').capitalize()}: ours, then the papers’. Every score × 100."
    headings = ["model", "source", "differs in", *metrics]
    return Table(title, headings, lines, texts=3, kinds=dict.fromkeys(range(len(ours)), "ours"))


def _letter(index: int) -> str:
    return ascii_lowercase[index % 26] * (1 + index // 26)
