"""The settings of the tests: golden/params.yaml, and datasets.yaml of the last commit.

Users and `dvc exp run -S` change params.yaml, so its values are not the values of the tests.
"""

from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from pipeline.config.params import Params, read_tree
from pipeline.io.inputs import read_yaml
from tests import shipped

FILE = Path(__file__).parent / "golden/params.yaml"


def copy(folder: Path) -> None:
    """Write both files as texts, in the layout of params.yaml."""
    (folder / "params.yaml").write_bytes(FILE.read_bytes())
    (folder / "datasets.yaml").write_text(shipped.text("datasets.yaml"), encoding="utf-8")


@cache
def _tree() -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        copy(Path(folder))
        found: dict[str, Any] = read_tree(Path(folder) / "params.yaml")
    # a model whose code is being written has its settings in params.yaml
    found["model"] = read_yaml(shipped.ROOT / "params.yaml", "")["model"] | found["model"]
    return found


def tree(**changes: Any) -> dict[str, Any]:
    """Return the content of the file with `changes`: path (keys joined by __) -> value."""
    found = deepcopy(_tree())
    for path, value in changes.items():
        *parents, last = path.split("__")
        branch = found
        for key in parents:
            branch = branch.setdefault(key, {})
        branch[last] = value
    return found


def write(folder: Path, **changes: Any) -> None:
    save(folder, tree(**changes))


def save(folder: Path, tree: dict[str, Any]) -> None:
    text = yaml.dump(tree, Dumper=yaml.CSafeDumper, sort_keys=False)  # ten times as fast as SafeDumper
    (folder / "params.yaml").write_text(text)


def settings(**changes: Any) -> Params:
    return Params.model_validate(tree(**changes))
