"""Reading JSON and YAML with clear errors; writing so that an output is whole or absent.

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
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer

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


@contextmanager
def _named(path: str | Path, remedy: str) -> Iterator[None]:
    """What can be wrong with a text file, as an InputError with `remedy`."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} is missing; {remedy}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, not a file; {remedy}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}); {remedy}") from None


def read_text(path: str | Path, remedy: str) -> str:
    """A UTF-8 file's text; InputError with `remedy` where it is missing or not UTF-8."""
    with _named(path, remedy):
        return Path(path).read_text(encoding="utf-8")


def read_lines(path: str | Path, remedy: str) -> Iterator[str]:
    r"""A UTF-8 file's lines one after the other, ended by \n alone; raises as `read_text` does."""
    with _named(path, remedy), Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield line.removesuffix(b"\n").decode()
            except UnicodeDecodeError:
                raise InputError(f"{path} is not UTF-8 text (line {number}); {remedy}") from None


def read_json(path: str | Path, remedy: str) -> Any:
    """A JSON file's value; InputError with `remedy` where it is missing, not JSON, or has a key twice."""

    def object_of(items: list[tuple[str, Any]]) -> dict[str, Any]:
        """An object whose keys differ: json would keep the last of equal ones without a word."""
        value = dict(items)
        if len(value) < len(items):
            doubled = next(key for key, count in Counter(key for key, _ in items).items() if count > 1)
            raise InputError(f"{path} has the key {doubled!r} more than once in one object; keep one of them")
        return value

    try:
        return json.loads(read_text(path, remedy), object_pairs_hook=object_of)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error}); {remedy}") from None


class _Doubled(yaml.YAMLError):
    """A key that stands twice in one mapping."""


class _Loader(Composer, yaml.CSafeLoader):
    """PyYAML's, which would keep the last of equal keys without a word.

    libyaml parses, six times as fast as Python does. CSafeLoader alone composes in C, too, and a file of
    100,000 dashes ended the program (tried: a segmentation fault); Python's Composer raises RecursionError.
    """

    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        Composer.__init__(self)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[Any, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                name, line = self.construct_object(key), key.start_mark.line + 1
                if name in lines:
                    raise _Doubled(f"line {line}: the key {name!r} stands in line {lines[name]} already")
                lines[name] = line
        return node


def read_yaml(path: str | Path, remedy: str) -> Any:
    """A YAML file's value; InputError with `remedy` where it is missing, not YAML, or has a key twice."""
    text = read_text(path, remedy)
    try:
        return yaml.load(text, _Loader)
    except _Doubled as error:
        raise InputError(f"{path}, {error}; keep one of them") from None
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is not valid YAML ({reason}); mend it, or {remedy}") from None
