"""Read the retrieval results that the stage pretrain wrote, and make tables of them for the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, FiniteFloat

from pipeline.io import content_hashes
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.io.records import read_record, read_records
from pipeline.reporting.paper_results import PublishedRetrieval
from pipeline.reporting.tables import NONE, Table
from pipeline.statistics.comparisons import compare_all
from pipeline.statistics.pair_scores import Evidence, of_retrieval
from pipeline.statistics.seeds import over_seeds

REMEDY = "run `dvc repro pretrain` to make it"
WAYS = {
    "text_to_pair": "Pairs found by a sentence",
    "text_to_pair_shared": "Pairs found by a sentence; another pair with the same sentence counts, too",
    "pair_to_text": "Sentences found by a pair",
}
SAID, RANKS = "retrieval.json", "retrieved.jsonl"
FIGURES = ("R@1", "R@5", "R@10", "MdR", "MnR")


class Example(BaseModel):
    """A sentence, the pair that it describes, and the pairs found by it, the most similar pair first."""

    sentence: str
    pair: str
    found: list[str]


class Figures(BaseModel):
    """Content of a retrieval.json; R@k are fractions, MdR and MnR are ranks."""

    pairs: int
    text_to_pair: dict[str, FiniteFloat]
    text_to_pair_shared: dict[str, FiniteFloat]
    pair_to_text: dict[str, FiniteFloat]
    chance: dict[str, FiniteFloat]
    examples: list[Example]


class _Ranks(BaseModel):
    pair_id: str
    scene_id: str | None = None  # several pairs may have the same scene; older files lack this key
    text_to_pair: list[FiniteFloat]
    pair_to_text: FiniteFloat


@dataclass(frozen=True)
class Retrieved:
    """Retrieval results of a run."""

    figures: Figures
    pair_ids: list[str]
    scene_ids: list[str]  # of each pair; empty if the file lacks them
    # direction of search -> for each pair, the share of its searches whose first result is right
    first: dict[str, list[float]]


def there(folder: Path) -> bool:
    """Return True if a folder of pre-training curves contains retrieval results."""
    return (folder / SAID).is_file()


def read(folder: Path, pairs: Path | None = None) -> Retrieved:
    """Read the retrieval results in a folder of curves. Raises InputError if a file is missing or damaged.

    `pairs`: the file of the dataset's pairs. Raises InputError if the results belong to other pairs.
    """
    lines, said = folder / RANKS, folder / SAID
    figures = read_record(said, Figures, REMEDY, "ignore")
    _check(said, lines, pairs)
    rows = list(read_records(lines, _Ranks, REMEDY, extra="ignore"))
    if not rows or not all(row.text_to_pair for row in rows):
        raise InputError(f"{lines} lacks the ranks of a pair; remove it and {REMEDY} again")
    by_sentence = [sum(rank <= 1 for rank in row.text_to_pair) / len(row.text_to_pair) for row in rows]
    by_pair = [float(row.pair_to_text <= 1) for row in rows]
    first = {"text_to_pair": by_sentence, "pair_to_text": by_pair}
    scenes = [row.scene_id for row in rows if row.scene_id is not None]
    return Retrieved(figures, [row.pair_id for row in rows], scenes * (len(scenes) == len(rows)), first)


def _check(said: Path, lines: Path, pairs: Path | None) -> None:
    """Raise InputError if the file of figures belongs to another run, other pairs or other ranks."""
    hashes = content_hashes.read(said, read_json(said, REMEDY), REMEDY)
    dataset, model, _, seed = said.parent.absolute().parts[-4:]  # results/curves/DATASET/MODEL/pretrain/SEED
    own = f"{dataset}/{model}/{seed}"
    if hashes.get("run", own) != own:
        raise InputError(f"{said} is of the run {hashes['run']}; {REMEDY} again")
    for name, file in {"ranks": lines, "pairs": pairs}.items():
        if file is not None:
            content_hashes.check(said, hashes, name, file, f"{REMEDY} again")


def section(
    found: Mapping[str, Mapping[int, Retrieved]], published: Sequence[PublishedRetrieval]
) -> dict[str, Any] | None:
    """Return the data of the page's section on retrieval; None if there are no results."""
    if not found:
        return None
    model, seeds = next(iter(found.items()))
    first = next(iter(seeds.values())).figures
    theirs = [row for row in published if not row.ablation]
    return {
        "pairs": first.pairs,
        "ways": [_way(name, title, found, first, theirs) for name, title in WAYS.items()],
        "sentences": sure({name: [*seeds.values()] for name, seeds in found.items()}),
        "model": model,
        "examples": first.examples,
    }


def _way(
    name: str,
    title: str,
    found: Mapping[str, Mapping[int, Retrieved]],
    first: Figures,
    published: Sequence[PublishedRetrieval],
) -> Table:
    theirs = [] if name.endswith("shared") else [(row.method, getattr(row, name)) for row in published]
    figures = list(dict.fromkeys([*FIGURES, *(key for _, values in theirs for key in values)]))
    lines = [("chance", "", [first.chance])]
    for model, seeds in found.items():
        said = f"mean of {len(seeds)}" if len(seeds) > 1 else str(next(iter(seeds)))
        lines.append((model, said, [getattr(each.figures, name) for each in seeds.values()]))
    lines += [(f"{method}\npublished", "", [values]) for method, values in theirs]
    rows = [[who, seed, *(printed(key, values) for key in figures)] for who, seed, values in lines]
    return Table(f"{title}.", ["model", "seed", *figures], rows, texts=2, kinds={0: "constant"})


def printed(figure: str, each: Sequence[Mapping[str, float]]) -> str:
    """Format a score, such as R@1, as its mean over seeds ± standard deviation.

    A share is in percent, a rank is unchanged.
    """
    return over_seeds([own[figure] for own in each]).printed(factor(figure)) if figure in each[0] else NONE


def factor(figure: str) -> int:
    """Return 100 for a share, which is printed in percent, and 1 for a rank."""
    return 100 if figure.startswith("R@") else 1


def sure(models: Mapping[str, Sequence[Retrieved]]) -> list[str]:
    """Return sentences about the difference in R@1 between every two models, tested by a paired bootstrap.

    The difference is the later model's R@1 minus the earlier model's R@1, in the order of `models`.
    """
    evidence: dict[str, Evidence] = {
        name: of_retrieval(seeds[0].pair_ids, seeds[0].scene_ids, [each.first for each in seeds])
        for name, seeds in reversed(list(models.items()))
    }
    labels = {"text_to_pair": "R@1 by a sentence", "pair_to_text": "R@1 by a pair"}
    return [
        comparison.sentence(a, b).replace(way.replace("_", " "), label)
        for (a, b), by_way in compare_all(evidence).items()
        for way, label in labels.items()
        for comparison in [by_way[way]]
    ]
