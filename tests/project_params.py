"""The project's params.yaml without what `dvc exp run -S` may have left in it for every cell at once."""

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from pipeline.config.params import Params, read_tree

FILE = Path(__file__).parents[1] / "params.yaml"
FEATURES = dict.fromkeys(("backbone", "weights", "stride", "finer", "precision"))
FEATURES |= {"resize": "pil_bicubic", "size": 224}


@cache
def _tree() -> dict[str, Any]:
    found: dict[str, Any] = read_tree(FILE)
    for part in ("loss", "train"):
        found[part] = dict.fromkeys(found[part])
    found["features"] |= FEATURES
    found["text"] |= {"tokeniser": "words"}
    return found


def tree(**changes: Any) -> dict[str, Any]:
    """The file's tree, whose top level leaves datasets their own values; `changes`: path, by __ -> value."""
    found = deepcopy(_tree())
    for path, value in changes.items():
        *parents, last = path.split("__")
        branch = found
        for key in parents:
            branch = branch[key]
        branch[last] = value
    return found


def write(folder: Path, **changes: Any) -> None:
    """Write it into a folder."""
    save(folder, tree(**changes))


def save(folder: Path, tree: dict[str, Any]) -> None:
    """Write a tree as a folder's params.yaml; libyaml takes a tenth of PyYAML's own 0.1 s."""
    text = yaml.dump(tree, Dumper=yaml.CSafeDumper, sort_keys=False)
    (folder / "params.yaml").write_text(text)


def settings(**changes: Any) -> Params:
    """What the stages make of it."""
    return Params.model_validate(tree(**changes))
