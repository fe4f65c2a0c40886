"""Read the retrieval results that the stage pretrain wrote, and make tables of them for the report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, FiniteFloat

from pipeline.io import content_hashes
from pipeline.io.records import read_record
from pipeline.reporting.paper_results import PublishedRetrieval
from pipeline.reporting.tables import NONE, Table
from pipeline.statistics.bootstrap import over_seeds

REMEDY = "run `dvc repro pretrain` to make it"
DIRECTIONS = {
    "text_to_pair": "Pairs found by a sentence",
    "text_to_pair_shared": "Pairs found by a sentence; another pair with the same sentence counts, too",
    "pair_to_text": "Sentences found by a pair",
}
FIGURES_FILE, RANKS_FILE = "retrieval.json", "retrieved.jsonl"
FIGURES = ("R@1", "R@5", "R@10", "MdR", "MnR")


class Figures(BaseModel):
    """Content of a retrieval.json; R@k are fractions, MdR and MnR are ranks.

    In `text_to_pair`, a sentence searches for its own pair. In `text_to_pair_shared`, every pair that
    has a sentence with the same text counts as correct. In `pair_to_text`, a pair searches for its
    sentences.
    """

    pairs: int
    text_to_pair: dict[str, FiniteFloat]
    text_to_pair_shared: dict[str, FiniteFloat]
    pair_to_text: dict[str, FiniteFloat]
    chance: dict[str, FiniteFloat]


def read(folder: Path, pairs: Path) -> Figures:
    """Read the retrieval results in a folder of curves, which must be of the pairs in the file `pairs`."""
    path = folder / FIGURES_FILE
    figures = read_record(path, Figures, REMEDY, "ignore")
    dataset, model, _, seed = folder.absolute().parts[-4:]  # results/curves/DATASET/MODEL/pretrain/SEED
    run, hashes = f"{dataset}/{model}/{seed}", content_hashes.read(path, REMEDY)
    content_hashes.verify(path, hashes, f"{REMEDY} again", run=run, ranks=folder / RANKS_FILE, pairs=pairs)
    return figures


def section(
    figures_by_model: Mapping[str, Mapping[int, Figures]], published: Sequence[PublishedRetrieval]
) -> dict[str, Any] | None:
    """Return the data on retrieval, with papers' results but no ablations; None without results."""
    if not figures_by_model:
        return None
    first_figures = next(iter(next(iter(figures_by_model.values())).values()))
    published_rows = [row for row in published if not row.ablation]
    tables = [
        _direction_table(name, title, figures_by_model, first_figures.chance, published_rows)
        for name, title in DIRECTIONS.items()
    ]
    return {"pairs": first_figures.pairs, "ways": tables}


def _direction_table(
    name: str,
    title: str,
    figures_by_model: Mapping[str, Mapping[int, Figures]],
    chance: Mapping[str, float],
    published: Sequence[PublishedRetrieval],
) -> Table:
    published_values = (
        [] if name.endswith("shared") else [(row.method, getattr(row, name)) for row in published]
    )
    figures = list(dict.fromkeys([*FIGURES, *(key for _, values in published_values for key in values)]))
    lines = [("chance", "", [chance])]
    for model, seeds in figures_by_model.items():
        seeds_text = f"mean of {len(seeds)}" if len(seeds) > 1 else str(next(iter(seeds)))
        lines.append((model, seeds_text, [getattr(seed_figures, name) for seed_figures in seeds.values()]))
    lines += [(f"{method}\npublished", "", [values]) for method, values in published_values]
    rows = [
        [model_text, seed, *(printed(key, values) for key in figures)] for model_text, seed, values in lines
    ]
    return Table(f"{title}.", ["model", "seed", *figures], rows, texts=2, kinds={0: "constant"})


def printed(figure: str, figures_of_seeds: Sequence[Mapping[str, float]]) -> str:
    """Format the mean ± sd over seeds, R@k in percent, MdR and MnR as ranks; NONE without this score."""
    return (
        over_seeds([values[figure] for values in figures_of_seeds]).printed(factor(figure))
        if figure in figures_of_seeds[0]
        else NONE
    )


def factor(figure: str) -> int:
    return 100 if figure.startswith("R@") else 1
