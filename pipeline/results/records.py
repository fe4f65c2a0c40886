"""Small records of finished runs, a JSON file each: the pages of results are made from them.

A study's records go to OWN, which git ignores. The path says what decides a record: the hash of the prepared
data, then model, changes, seed and the hash of the settings. FOLDER has the published records, which git
keeps; only a promotion adds to them (pipeline/results/own_records.py).

A run's own files (study_cells.KEPT) are too large for that. A record has the model, its settings, its scores
by subset, its validation curves, and for each test pair, in the order of the dataset's pairs.json: whether
the caption is true, what is false, whether it is right about a change, and the caption's metrics. A paired
bootstrap and a correlation need no more. READ pairs have the caption itself. The numbers of pairs are
thousandths in base 36, so that a record stays small; `read` returns them as lists.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from pipeline.config.params import Params
from pipeline.datasets.manifest import read_pairs
from pipeline.datasets.schema import CHANGE, CHANGE_TYPES, NO_CHANGE, Pair, of_split
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_bytes, read_json, read_text
from pipeline.io.outputs import write_text
from pipeline.io.provenance import sha256
from pipeline.io.records import read_record
from pipeline.reporting.run_curves import read_curve
from pipeline.scoring.metric_names import CIDER, CORPUS, FAULTS, RIGHT, TRUE
from pipeline.scoring.subsets import subsets
from pipeline.statistics import pair_scores
from pipeline.study.overrides import Tree
from pipeline.study.study_cells import Cell

FOLDER = Path("results/records")
OWN = Path("results/own/records")
PAIRS = "pairs.json"
CAPTIONS = "captions"
LONGEST = 120  # letters of what a file's name tells of the changes; systems allow 255 of the whole
MOST_PAIRS = 1_000  # of a test split: beyond, a record is no small file
READ = 10  # captions that a reader reads
MARKED_OF_PAIRS = (TRUE, RIGHT)
OF_PAIRS = (*MARKED_OF_PAIRS, FAULTS, *CORPUS)  # each has a part for every test pair
CURVES = ("CIDEr-D", "true", "true/change")  # of validation.csv, where scenes are known
BASE = 36
WIDTHS = {name: 3 if name == CIDER else 2 for name in CORPUS}  # digits of a thousandth: CIDEr-D goes to 10
BETWEEN = ","  # of the pairs' letters of truth.FAULTS; "-" where the scene is not known
MARKS = {True: "1", False: "0", None: "-"}  # of a test pair; None: not known
REMEDY = "restore it with git, or remove it and run the study again"
Record = dict[str, Any]


class Scores(BaseModel, extra="ignore"):
    """The scores that every subset of a record has."""

    bleu_4: float = Field(alias="BLEU-4")
    meteor: float = Field(alias="METEOR")
    rouge_l: float = Field(alias="ROUGE-L")
    cider: float = Field(alias="CIDEr-D")


class Stored(BaseModel):
    """The keys of a record's file that are read again; each of OF_PAIRS is a text."""

    dataset: str
    model: str
    seed: int
    changes: dict[str, Any]
    settings: str
    train: dict[str, Any]
    scores: dict[str, Scores]
    localisation: dict[str, float]
    validation: dict[str, dict[str, float]]
    captions: list[str]
    true: str
    right: str
    faults: str
    bleu_4: str = Field(alias="BLEU-4")
    meteor: str = Field(alias="METEOR")
    rouge_l: str = Field(alias="ROUGE-L")
    cider: str = Field(alias="CIDEr-D")


class Described(BaseModel):
    """A pairs.json: the test pairs in their order, subsets by places, references of the captions to read."""

    pairs: list[str]
    viewpoint_iou: list[float | None]
    subsets: dict[str, list[int]]
    captions: dict[str, str]


def name(model: str, changes: Mapping[str, Any], seed: int) -> str:
    """Return the file name of a published record: model, differences from params.yaml, seed.

    The differences are there twice: readable, with the last part of each key, and complete, as a hash.
    """
    said = "".join(f"-{key.rsplit('.', 1)[-1]}={value}" for key, value in sorted(changes.items()))
    told = f"{said[:LONGEST]}-{sha256(json.dumps(changes, sort_keys=True))[:8]}" if changes else ""
    return re.sub(r"[^\w.=-]", "_", f"{model}{told}-{seed}") + ".json"


def name_of(record: Mapping[str, Any]) -> str:
    """Return the file name of a published record, from its content."""
    return name(record["model"], record["changes"], record["seed"])


def own_name_of(record: Mapping[str, Any]) -> str:
    """Return the file name of a user's own record: the published name and the hash of the settings."""
    return f"{name_of(record).removesuffix('.json')}.{record['settings']}.json"


def path(root: Path, cell: Cell, changes: Tree) -> Path:
    """Return the place of a run's record, for the data prepared in `root`."""
    own = {"model": cell.model, "changes": changes, "seed": cell.seed, "settings": settings(cell)}
    return root / OWN / cell.dataset / data(root, cell.dataset) / own_name_of(own)


def data(root: Path, dataset: str) -> str:
    """Return a hash of the prepared pairs and of the index of images, which has each image's hash."""
    files = (root / f"data/{part}/{dataset}.jsonl" for part in ("pairs", "images"))
    return sha256(*(read_bytes(file) if file.exists() else b"" for file in files))[:16]


def settings(cell: Cell) -> str:
    """Return a hash of all values of params.yaml that decide a run, whatever code and machine make it."""
    params, recipe = Params.model_validate(cell.params), _recipe(cell)
    del recipe["code"]
    # empty values and defaults do not count: a new setting leaves the records made without it valid
    recipe = {key: value for key, value in recipe.items() if value not in (None, {}, [], ())}
    known = cell.dataset in params.tabletop.viewpoint
    rendered = params.tabletop.of(cell.dataset).model_dump(exclude_defaults=True) if known else None
    precision = params.features_of(cell.dataset).precision
    own = [recipe, cell.seed, rendered, precision, params.decode.model_dump(), params.score.model_dump()]
    return sha256(json.dumps(own, sort_keys=True).encode())[:16]


def _recipe(cell: Cell) -> Tree:
    return asdict(cell.recipe)


def write(root: Path, cell: Cell, changes: Tree, workspace: Path) -> Path | None:
    """Write the record of a run that the stages made in `workspace`, and return its path.

    A large test split has no record: None.
    """
    pairs = _test_pairs(workspace, cell.dataset)
    if len(pairs) > MOST_PAIRS:
        return None
    ordered = _scored(workspace / cell.made / "pairs.jsonl", pairs)
    metrics = read_json(workspace / cell.made / "metrics.json", REMEDY)
    found = {
        "dataset": cell.dataset,
        "model": cell.model,
        "seed": cell.seed,
        "changes": changes,
        "settings": settings(cell),
        "data": data(workspace, cell.dataset),
        "pairs": identity(described(pairs)),
        "key": cell.key,
        "train": _recipe(cell)["train"],
        "scores": {
            name: {metric: round(metrics[name][metric], 4) for metric in CORPUS}
            for name in ("total", *subsets(pairs))
        },
        "attributes": metrics.get("attributes", {}),
        "localisation": metrics.get("localisation", {}),
        "validation": _curves(workspace / "results/curves" / Path(*cell.made.parts[2:]) / "validation.csv"),
        **{name: "".join(MARKS[line[name]] for line in ordered) for name in MARKED_OF_PAIRS},
        FAULTS: BETWEEN.join(MARKS[None] if line[FAULTS] is None else line[FAULTS] for line in ordered),
        **{name: packed([line[name] for line in ordered], width) for name, width in WIDTHS.items()},
        CAPTIONS: [ordered[place]["caption"] for place in read_places(pairs)],
    }
    folder = root / OWN / cell.dataset / found["data"]
    save(folder / PAIRS, described(pairs))
    save(folder / own_name_of(found), found)
    return folder / own_name_of(found)


def _scored(path: Path, pairs: Sequence[Pair]) -> list[Record]:
    """Return the lines of a pairs.jsonl in the pairs' order. Raises InputError naming a missing pair."""
    known = {pair.pair_id for pair in pair_scores.read_pairs(path)}
    if lacking := next((pair.pair_id for pair in pairs if pair.pair_id not in known), None):
        raise InputError(
            f"{path} has nothing of the test pair {lacking}; run `dvc repro score` to make it again"
        )
    scored = {line["pair_id"]: line for line in map(json.loads, read_text(path, REMEDY).splitlines())}
    return [scored[pair.pair_id] for pair in pairs]


def has_records(root: Path, dataset: str) -> bool:
    """Return whether the test split of a prepared dataset is small enough for records."""
    return len(_test_pairs(root, dataset)) <= MOST_PAIRS


def _test_pairs(root: Path, dataset: str) -> list[Pair]:
    return of_split(read_pairs(root / f"data/pairs/{dataset}.jsonl"), "test")


def packed(values: Iterable[float], width: int) -> str:
    """Return fractions as thousandths of `width` digits each."""
    return "".join(np.base_repr(round(1000 * value), BASE).rjust(width, "0") for value in values)


def _unpacked(digits: str, width: int) -> list[int]:
    return [int(digits[at : at + width], BASE) for at in range(0, len(digits), width)]


def _curves(path: Path) -> dict[str, dict[str, float]]:
    """Return score -> iteration -> value, for the computed scores."""
    curve = read_curve(path, "iteration")
    iterations = [str(round(number)) for number in curve["iteration"]]
    return {
        name: {at: round(value, 4) for at, value in zip(iterations, curve[name], strict=True)}
        for name in CURVES
        if iterations and name in curve
    }


def read_places(pairs: Sequence[Pair]) -> list[int]:
    """Return the places of READ test pairs: the first ones of each kind of change and of none in turn."""
    kinds: dict[str, list[int]] = {kind: [] for kind in (*CHANGE_TYPES, CHANGE, NO_CHANGE)}
    for place, pair in enumerate(pairs):
        kinds[pair.change_type or CHANGE].append(place)
    turns = zip_longest(*kinds.values())
    return [place for turn in turns for place in turn if place is not None][:READ]


def prepared(root: Path, dataset: str) -> Record:
    """Return the content of a pairs.json for the prepared data."""
    return _prepared(root, dataset, data(root, dataset))


@lru_cache(maxsize=8)
def _prepared(root: Path, dataset: str, _: str) -> Record:
    return described(_test_pairs(root, dataset))


def identity(described: Record) -> str:
    """Return a hash of the content of a pairs.json."""
    return sha256(json.dumps(described, sort_keys=True))[:16]


def described(pairs: Sequence[Pair]) -> Record:
    """Return ids and view overlaps of the test pairs, subsets by places, and references of the READ pairs."""
    places = {pair.pair_id: place for place, pair in enumerate(pairs)}
    members = {name: [places[one] for one in ids] for name, ids in subsets(pairs).items()}
    overlaps = [pair.viewpoint_iou for pair in pairs]
    read = {str(place): pairs[place].captions[0] for place in read_places(pairs)}
    return {"pairs": list(places), "viewpoint_iou": overlaps, "subsets": members, CAPTIONS: read}


def save(path: Path, tree: Record) -> None:
    """Write one key a line, for readable differences, without other spaces, for a small file."""
    lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in tree.items()]
    write_text(path, "{" + ",\n".join(lines) + "}\n")


def read(path: Path) -> Record:
    """Return a record, with numbers and faults of pairs as lists. Raises InputError where it is none."""
    read_record(path, Stored, REMEDY, "ignore")
    found = read_json(path, REMEDY)
    try:
        numbers = {name: _unpacked(found[name], width) for name, width in WIDTHS.items()}
    except ValueError:
        raise InputError(f"{path}: the numbers of its pairs cannot be read; {REMEDY}") from None
    return found | numbers | {FAULTS: found[FAULTS].split(BETWEEN)}


def read_pairs_file(path: Path) -> Record:
    """Return a pairs.json. Raises InputError where it is none."""
    pairs = read_record(path, Described, REMEDY, "ignore")
    if any(not 0 <= place < len(pairs.pairs) for places in pairs.subsets.values() for place in places):
        raise InputError(f"{path}: a subset has a pair that is not there; {REMEDY}")
    return dict(pairs)
