"""The project's params.yaml without what `dvc exp run -S` may have left in it for every cell at once."""

from pathlib import Path
from typing import Any

import yaml

from pipeline.params import Params, read_tree

FILE = Path(__file__).parents[1] / "params.yaml"
FEATURES = {"weights": None, "layer": "layer3", "resize": "pil_bicubic", "size": 224}


def tree() -> dict[str, Any]:
    """The file's tree, whose top level leaves every dataset its own values."""
    found: dict[str, Any] = read_tree(FILE)
    for part in ("loss", "train"):
        found[part] = dict.fromkeys(found[part])
    found["features"] |= FEATURES
    found["text"] |= {"tokeniser": "words"}
    return found


def write(folder: Path) -> None:
    """Write it into a folder."""
    (folder / "params.yaml").write_text(yaml.safe_dump(tree(), sort_keys=False))


def settings() -> Params:
    """What the stages make of it."""
    return Params.model_validate(tree())
