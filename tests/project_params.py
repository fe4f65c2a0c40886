"""The project's params.yaml without what `dvc exp run -S` may have left in it for every cell at once."""

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from pipeline.params import Params, read_tree

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


def tree() -> dict[str, Any]:
    """The file's tree, whose top level leaves every dataset its own values."""
    return deepcopy(_tree())


def write(folder: Path) -> None:
    """Write it into a folder."""
    save(folder, _tree())


def save(folder: Path, tree: dict[str, Any]) -> None:
    """Write a tree as a folder's params.yaml; libyaml takes a tenth of PyYAML's own 0.1 s."""
    text = yaml.dump(tree, Dumper=yaml.CSafeDumper, sort_keys=False)
    (folder / "params.yaml").write_text(text)


def settings() -> Params:
    """What the stages make of it."""
    return Params.model_validate(_tree())
