"""Small records of finished cells, a JSON file each, which git keeps: the page of results is made of them.

A finished cell's own files (study_cells.KEPT) are too large for that. A record says which model with which
settings was trained on what, its scores by subset, its validation curve, and for each test pair CIDEr-D,
whether the caption is true, and whether it told rightly that something changed, in the order of the
dataset's pairs.json beside it: what a paired bootstrap needs.
"""

import csv
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipeline.datasets.schema import Pair, of_split, read_pairs
from pipeline.errors import InputError
from pipeline.inputs import read_json, read_text
from pipeline.outputs import write_text
from pipeline.params import Params, read_tree
from pipeline.provenance import sha256
from pipeline.recipes import resolving
from pipeline.scoring.metric_names import CORPUS, RIGHT, TRUE
from pipeline.scoring.subsets import subsets
from pipeline.studying.overrides import Tree, overlay
from pipeline.studying.study_cells import Cell
from pipeline.studying.study_file import Row

FOLDER = Path("results/records")
PAIRS = "pairs.json"
LONGEST = 120  # letters of what a file's name tells of the changes; systems allow 255 of the whole
MOST_PAIRS = 400  # of a test split: beyond, a record is no small file
MARKED_OF_PAIRS = (TRUE, RIGHT)
MARKS = {True: "1", False: "0", None: "-"}  # of a test pair; None: not known
REMEDY = "restore it with git, or remove it and run the study again"
Record = dict[str, Any]


def path(root: Path, cell: Cell, changes: Tree) -> Path:
    """Where the record of a cell lies: its model, what is otherwise than in params.yaml, its seed.

    The changes are there twice: to be read, cut to the last part of each key, and whole, by a hash.
    """
    said = "".join(f"-{key.rsplit('.', 1)[-1]}={value}" for key, value in sorted(changes.items()))
    told = f"{said[:LONGEST]}-{sha256(json.dumps(changes, sort_keys=True))[:8]}" if changes else ""
    name = re.sub(r"[^\w.=-]", "_", f"{cell.model}{told}-{cell.seed}")
    return root / FOLDER / cell.dataset / f"{name}.json"


def settings(cell: Cell) -> str:
    """A hash of all numbers of params.yaml that the cell depends on, whatever code and machine make it."""
    params, recipe = Params.model_validate(cell.params), _recipe(cell)
    del recipe["code"]
    # what a model has none of says nothing: so a new part of recipes leaves the records of other models valid
    recipe = {key: value for key, value in recipe.items() if value not in (None, {}, [], ())}
    rendered = params.tabletop.viewpoint.get(cell.dataset) and params.tabletop.of(cell.dataset).model_dump()
    precision = params.features_of(cell.dataset).precision
    own = [recipe, cell.seed, rendered, precision, params.decode.model_dump(), params.score.model_dump()]
    return sha256(json.dumps(own, sort_keys=True).encode())[:16]


def _recipe(cell: Cell) -> Tree:
    return asdict(cell.recipe)


def write(root: Path, cell: Cell, changes: Tree, workspace: Path) -> None:
    """Write the record of a cell that the stages made in `workspace`, unless its test split is large."""
    pairs = _test_pairs(workspace, cell.dataset)
    if len(pairs) > MOST_PAIRS:
        return
    lines = read_text(workspace / cell.made / "pairs.jsonl", REMEDY).splitlines()
    scored = {line["pair_id"]: line for line in map(json.loads, lines)}
    ordered = [scored[pair.pair_id] for pair in pairs]
    metrics = read_json(workspace / cell.made / "metrics.json", REMEDY)
    found = {
        "dataset": cell.dataset,
        "model": cell.model,
        "seed": cell.seed,
        "changes": changes,
        "settings": settings(cell),
        "key": cell.key,
        "train": _recipe(cell)["train"],
        "scores": {
            name: {metric: metrics[name][metric] for metric in CORPUS} for name in ("total", *subsets(pairs))
        },
        "attributes": metrics.get("attributes", {}),
        "localisation": metrics.get("localisation", {}),
        "validation": _curve(workspace / "results/curves" / Path(*cell.made.parts[2:]) / "validation.csv"),
        **{name: "".join(MARKS[line[name]] for line in ordered) for name in MARKED_OF_PAIRS},
        "CIDEr-D": [round(1000 * line["CIDEr-D"]) for line in ordered],
    }
    _write(path(root, cell, changes), found)
    _write(root / FOLDER / cell.dataset / PAIRS, _described(pairs))


def has_records(root: Path, dataset: str) -> bool:
    """Whether cells of a prepared dataset leave records: its test split is small enough."""
    return len(_test_pairs(root, dataset)) <= MOST_PAIRS


def _test_pairs(root: Path, dataset: str) -> list[Pair]:
    return of_split(read_pairs(root / f"data/pairs/{dataset}.jsonl"), "test")


def _curve(path: Path) -> dict[str, float]:
    with path.open(newline="", encoding="utf-8") as file:
        return {row["iteration"]: round(float(row["CIDEr-D"]), 4) for row in csv.DictReader(file)}


def _described(pairs: Sequence[Pair]) -> Record:
    """Each test pair's id and its views' overlap, and the subsets' members by their places."""
    places = {pair.pair_id: place for place, pair in enumerate(pairs)}
    members = {name: [places[one] for one in ids] for name, ids in subsets(pairs).items()}
    overlaps = [pair.viewpoint_iou for pair in pairs]
    return {"pairs": list(places), "viewpoint_iou": overlaps, "subsets": members}


def _write(path: Path, tree: Record) -> None:
    """One key a line, so that a difference can be read, and no other spaces, so that the file is small."""
    lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in tree.items()]
    write_text(path, "{" + ",\n".join(lines) + "}\n")


def read(path: Path) -> Record:
    """A record. Raises InputError where it is none."""
    found = read_json(path, REMEDY)
    keys = {"dataset", "model", "seed", "changes", "settings", "scores", *MARKED_OF_PAIRS, "CIDEr-D"}
    if not isinstance(found, dict) or not keys <= set(found):
        raise InputError(f"{path} is no record of a cell; {REMEDY}")
    return found


def check(root: Path, found: Iterable[Record]) -> None:
    """Raises InputError naming the first record of other settings than the repository's params.yaml has."""
    tree = read_tree(root / "params.yaml")
    for record in found:
        dataset, model = record["dataset"], record["model"]
        row = Row(label=model, model=model, set=record["changes"])
        changed = overlay(tree, row, dataset, str(FOLDER))
        recipe = resolving.resolve(Params.model_validate(changed), dataset, model)
        cell = Cell("", dataset, model, record["seed"], changed, recipe, "")
        if settings(cell) != record["settings"]:
            file = path(root, cell, record["changes"])
            raise InputError(f"{file} is of other settings than params.yaml; remove it or make it anew")


def recorded(root: Path, cell: Cell, changes: Tree) -> bool:
    """Whether there is a record of a cell of the same settings, made with any code on any machine."""
    file = path(root, cell, changes)
    return file.exists() and read(file)["settings"] == settings(cell)
