"""Writing so that an output is whole or absent.

DVC may link outputs read-only into its cache, so nothing is ever changed in place: it is
written beside its name, on the same file system, and renamed.
"""

import glob
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from ruamel.yaml.resolver import implicit_resolvers

from pipeline.errors import InputError, writing


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a path beside `path` to write a file or folder to; rename it when the block ends well.

    Raises InputError where `path` cannot be written.
    """
    path = Path(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            yield beside
            place(beside, path)
        finally:
            remove(beside)


def place(made: Path, path: Path) -> None:
    """Rename `made`, a file or folder on the same file system, to `path`, replacing what is there.

    Raises InputError where that cannot be done.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() or made.is_dir():
            remove(path)
        made.replace(path)


def scratch(out: Path, key: str) -> Path:
    """The folder where a long stage keeps its work on `out`: beside it, for a rename crosses no disks.

    `key` stands for all that the work depends on. git and DVC ignore the name. Raises InputError where
    DVC, which runs the stage, would refuse `out` only when the work is done.
    """
    root = os.environ.get("DVC_ROOT")  # DVC sets it
    if root and not out.parent.resolve().is_relative_to(Path(root).resolve()) and _with_git(root):
        raise InputError(
            f"{out.parent} is reached by a link out of the repository, where DVC takes no outputs; mount the "
            "disk there (`mount --bind`), or do without `dvc exp`: `dvc config --local core.no_scm true`"
        )
    return out.with_name(f".{out.name}.{key}.scratch")


def _with_git(root: str) -> bool:
    command = [sys.executable, "-m", "dvc", "config", "core.no_scm"]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
    return said.strip() != "true"


def clear(out: Path) -> None:
    """Remove all scratch folders of `out`, those of other keys too. Raises InputError where it cannot."""
    with writing(out):
        for left in out.parent.glob(f".{glob.escape(out.name)}.*.scratch"):
            remove(left)


@contextmanager
def telling(path: Path) -> Iterator[io.BufferedWriter]:
    """A file for torch.save, which hides by a RuntimeError of its own why a write failed."""
    with _Telling(io.FileIO(path, "w")) as file:
        try:
            yield file
        except RuntimeError as error:
            raise file.failure or error from None


class _Telling(io.BufferedWriter):
    failure: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a whole text file, UTF-8, or nothing."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` with sorted keys, so that equal values are equal bytes."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def write_json_lines(path: str | Path, values: Iterable[Any]) -> None:
    """Write one JSON value a line, keys in the order that the values have."""
    with replacing(path) as beside, beside.open("w", encoding="utf-8") as file:
        for value in values:
            file.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")


class _Dumper(yaml.SafeDumper):
    """PyYAML's, which writes for readers of YAML 1.1: what is no text to ours, of 1.2, is quoted, too."""


for _versions, _tag, _form, _first in implicit_resolvers:
    if (1, 2) in _versions:
        _Dumper.add_implicit_resolver(_tag, _form, _first)


def yaml_of(value: Any, width: int = 80, flow: bool = False) -> str:
    """A value as YAML, as pipeline/inputs.py reads it, in the keys' own order; `flow`: in one line."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=width, default_flow_style=flow)
