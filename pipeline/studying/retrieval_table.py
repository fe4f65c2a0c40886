"""The retrieval of a study's adapted rows: mean ± sd over seeds, chance, and the paper's figures."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipeline.reporting import paper_results
from pipeline.reporting.retrieval_results import FIGURES, WAYS, Figures
from pipeline.scoring.results import rounded
from pipeline.statistics import over_seeds
from pipeline.studying.study_cells import RETRIEVAL, Cell
from pipeline.studying.study_file import Row

Record = dict[str, Any]
BOTH = ("text_to_pair", "pair_to_text")


def spread(root: Path, cells: Sequence[Cell]) -> Record:
    """Way -> figure -> mean, deviation and runs; and chance's. Empty where the cells have no retrieval."""
    files = [root / cell.folder / RETRIEVAL for cell in cells if cell.recipe.entry.retrieves]
    found = [Figures.model_validate(json.loads(path.read_text(encoding="utf-8"))) for path in files]
    if not found:
        return {}
    ways = {way: [getattr(own, way) for own in found] for way in WAYS}
    values = {
        way: {figure: rounded(asdict(over_seeds([own[figure] for own in each]))) for figure in FIGURES}
        for way, each in ways.items()
    }
    return values | {"chance": {figure: found[0].chance[figure] for figure in FIGURES}}


def published(root: Path, row: Row, dataset: str) -> Record:
    """Way -> figure -> value, of the row's published method; empty where the paper prints none of it."""
    if row.published is None:
        return {}
    rows = paper_results.retrieval(dataset, root / paper_results.FOLDER)
    own = next((one for one in rows if one.method == row.published), None)
    return {} if own is None else {way: getattr(own, way) for way in BOTH}


def lines(record: Record, way: str) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of one way's table, as text; no rows where no row of the study has any retrieval."""
    rows = [row for row in record["rows"] if row["retrieval"]]
    theirs = list(dict.fromkeys(key for row in rows for key in row["published_retrieval"].get(way, {})))
    headings = ["", "seeds", *FIGURES, *(f"paper {figure}" for figure in theirs)]
    return headings, [*_chance(rows, len(theirs)), *(_line(row, way, theirs) for row in rows)]


def _chance(rows: Sequence[Record], blanks: int) -> Iterator[list[str]]:
    for row in rows[:1]:
        own = row["retrieval"]["chance"]
        yield ["chance", "", *(_printed(figure, own[figure]) for figure in FIGURES), *["–"] * blanks]


def _line(row: Record, way: str, theirs: Sequence[str]) -> list[str]:
    own, paper = row["retrieval"][way], row["published_retrieval"].get(way, {})
    return [
        row["label"],
        f"{row['finished']}/{len(row['cells'])}",
        *(_printed(figure, own[figure]["mean"], own[figure]["sd"]) for figure in FIGURES),
        *(_printed(figure, paper.get(figure)) for figure in theirs),
    ]


def _printed(figure: str, value: float | None, deviation: float | None = None) -> str:
    """Shares in percent, ranks as they are."""
    if value is None:
        return "–"
    factor = 100 if figure.startswith("R@") else 1
    return f"{factor * value:.1f}" + ("" if deviation is None else f" ± {factor * deviation:.1f}")
