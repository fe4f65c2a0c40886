"""Writing so that an output is whole or absent.

A file replaces nothing but a file, and a folder only one that holds nothing but what the same stage writes.
DVC may link outputs read-only into its cache, so nothing is ever changed in place: it is written beside its
name, on the same file system, and renamed.
"""

import io
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml
from ruamel.yaml.resolver import implicit_resolvers

from pipeline.errors import InputError, writing


@dataclass(frozen=True)
class Contents:
    """What a stage writes into a folder: `mark` always, and else only what `names` match.

    Names are paths below the folder, with `/`; in them `*` stands for a part of one file's or folder's name.
    """

    mark: str
    names: tuple[str, ...] = ()

    def check(self, path: Path) -> None:
        """Raises InputError where a folder of these contents must not replace what `path` is."""
        with writing(path):
            if path.name in ("", ".."):
                raise InputError(f"{path} cannot be made anew; name a folder below it")
            if path.is_symlink():
                raise InputError(
                    f"{path} is a link, which a folder does not replace; name another, or remove it"
                )
            if not path.is_dir():
                if path.exists():
                    raise InputError(f"{path} is a file, which a folder does not replace; name another")
                return
            files, strange = self._inside(path)
        if strange is None and files and self.mark not in files:
            strange = files[0]
        if strange is not None:
            raise InputError(
                f"{path} holds {strange!r}, which was not written by what would replace the folder; "
                "name another folder, or move that away"
            )

    def to_write(self, text: str) -> Path:
        """An argument that names such a folder; raises as `check` does."""
        self.check(path := Path(text))
        return path

    def _inside(self, path: Path) -> tuple[list[str], str | None]:
        """The files in a folder, and the first file or folder that is none of these contents."""
        own = [tuple(name.split("/")) for name in (self.mark, *self.names)]
        files: list[str] = []
        for parent, folders, names in os.walk(path):
            below = Path(parent).relative_to(path)
            folders.sort()
            for name in (*folders, *sorted(names)):
                place = below / name
                size = len(place.parts)
                known = [
                    each[:size]
                    for each in own
                    if (len(each) > size if name in folders else len(each) == size)
                ]
                if not any(all(map(fnmatchcase, place.parts, each)) for each in known):
                    return files, str(place)
            files += [str(below / name) for name in names]
        return files, None


def file_to_write(text: str) -> Path:
    """An argument that names a file to write; raises as `check_file` does."""
    check_file(path := Path(text))
    return path


def check_file(path: Path) -> None:
    """Raises InputError where a file must not replace what `path` is."""
    with writing(path):
        if path.is_dir():
            raise InputError(f"{path} is a folder, which a file does not replace; name a file")
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is no regular file, and is not replaced; name another")


def check(path: Path, contents: Contents | None) -> None:
    """`check_file`, or with `contents` what these check of a folder."""
    if contents is None:
        check_file(path)
    else:
        contents.check(path)


@contextmanager
def replacing(path: str | Path, contents: Contents | None = None) -> Iterator[Path]:
    """Yield a path beside `path` to write a file or folder to; rename it when the block ends well.

    A folder where `contents` are given: what it holds. Raises InputError where `path` cannot be written, or
    is what must not be replaced.
    """
    path = Path(path)
    check(path, contents)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
        remove(beside)  # of a run with the same number, which was killed
        try:
            yield beside
            settle(beside)
            place(beside, path, contents)
        finally:
            remove(beside)


def settle(made: Path) -> None:
    """Have the disk take a file, or all of a folder: a power cut could leave a name without its bytes."""
    for each in (made, *made.rglob("*")):
        file = os.open(each, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def place(made: Path, path: Path, contents: Contents | None = None) -> None:
    """Rename `made`, a file or folder on the same file system, to `path`, replacing what is there.

    A folder where `contents` are given. Raises InputError where that cannot be done, or must not.
    """
    assert made.is_dir() == (contents is not None)
    check(path, contents)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_dir():
            made.replace(path)
            return
        # a kill leaves the one folder or the other, whole
        aside = path.with_name(f".{path.name}.{os.getpid()}old.partial")
        remove(aside)
        path.replace(aside)
        made.replace(path)
        remove(aside)


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
