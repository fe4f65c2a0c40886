"""The project's params.yaml, without global values that `dvc exp run -S` may have left in it."""

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
    """Return the content of the file with `changes`: path (keys joined by __) -> value."""
    found = deepcopy(_tree())
    for path, value in changes.items():
        *parents, last = path.split("__")
        branch = found
        for key in parents:
            branch = branch[key]
        branch[last] = value
    return found


def write(folder: Path, **changes: Any) -> None:
    save(folder, tree(**changes))


def save(folder: Path, tree: dict[str, Any]) -> None:
    text = yaml.dump(tree, Dumper=yaml.CSafeDumper, sort_keys=False)  # ten times as fast as SafeDumper
    (folder / "params.yaml").write_text(text)


def settings(**changes: Any) -> Params:
    return Params.model_validate(tree(**changes))
