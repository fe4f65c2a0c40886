"""Read the retrieval results that the stage pretrain wrote, and make tables of them for the report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, FiniteFloat

from pipeline.io import content_hashes
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.io.records import read_record
from pipeline.reporting.paper_results import PublishedRetrieval
from pipeline.reporting.tables import NONE, Table
from pipeline.statistics.seeds import over_seeds

REMEDY = "run `dvc repro pretrain` to make it"
WAYS = {
    "text_to_pair": "Pairs found by a sentence",
    "text_to_pair_shared": "Pairs found by a sentence; another pair with the same sentence counts, too",
    "pair_to_text": "Sentences found by a pair",
}
SAID, RANKS = "retrieval.json", "retrieved.jsonl"
FIGURES = ("R@1", "R@5", "R@10", "MdR", "MnR")


class Figures(BaseModel):
    """Content of a retrieval.json; R@k are fractions, MdR and MnR are ranks."""

    pairs: int
    text_to_pair: dict[str, FiniteFloat]
    text_to_pair_shared: dict[str, FiniteFloat]
    pair_to_text: dict[str, FiniteFloat]
    chance: dict[str, FiniteFloat]


def read(folder: Path, pairs: Path) -> Figures:
    """Read the retrieval results in a folder of curves. `pairs` is the file of the dataset's pairs.

    Raises InputError if a file is missing or damaged, or belongs to another run or other pairs.
    """
    said = folder / SAID
    figures = read_record(said, Figures, REMEDY, "ignore")
    hashes = content_hashes.read(said, read_json(said, REMEDY), REMEDY)
    dataset, model, _, seed = folder.absolute().parts[-4:]  # results/curves/DATASET/MODEL/pretrain/SEED
    own = f"{dataset}/{model}/{seed}"
    if hashes.get("run", own) != own:
        raise InputError(f"{said} is of the run {hashes['run']}; {REMEDY} again")
    for name, file in {"ranks": folder / RANKS, "pairs": pairs}.items():
        content_hashes.check(said, hashes, name, file, f"{REMEDY} again")
    return figures


def section(
    found: Mapping[str, Mapping[int, Figures]], published: Sequence[PublishedRetrieval]
) -> dict[str, Any] | None:
    """Return the data of the page's section on retrieval; None if there are no results."""
    if not found:
        return None
    first = next(iter(next(iter(found.values())).values()))
    theirs = [row for row in published if not row.ablation]
    ways = [_way(name, title, found, first, theirs) for name, title in WAYS.items()]
    return {"pairs": first.pairs, "ways": ways}


def _way(
    name: str,
    title: str,
    found: Mapping[str, Mapping[int, Figures]],
    first: Figures,
    published: Sequence[PublishedRetrieval],
) -> Table:
    theirs = [] if name.endswith("shared") else [(row.method, getattr(row, name)) for row in published]
    figures = list(dict.fromkeys([*FIGURES, *(key for _, values in theirs for key in values)]))
    lines = [("chance", "", [first.chance])]
    for model, seeds in found.items():
        said = f"mean of {len(seeds)}" if len(seeds) > 1 else str(next(iter(seeds)))
        lines.append((model, said, [getattr(each, name) for each in seeds.values()]))
    lines += [(f"{method}\npublished", "", [values]) for method, values in theirs]
    rows = [[who, seed, *(printed(key, values) for key in figures)] for who, seed, values in lines]
    return Table(f"{title}.", ["model", "seed", *figures], rows, texts=2, kinds={0: "constant"})


def printed(figure: str, each: Sequence[Mapping[str, float]]) -> str:
    """Format the mean ± sd over seeds of a score: R@k in percent, or a rank."""
    return over_seeds([own[figure] for own in each]).printed(factor(figure)) if figure in each[0] else NONE


def factor(figure: str) -> int:
    """Return 100 for a share, which is printed in percent, and 1 for a rank."""
    return 100 if figure.startswith("R@") else 1
