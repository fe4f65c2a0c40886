"""Writing so that an output is whole or absent.

A file replaces nothing but a file, and a folder only one that holds nothing but what the same stage wrote
(folder_records.py).
DVC may link outputs read-only into its cache, so nothing is ever changed in place: it is written beside its
name, on the same file system, and renamed.
"""

import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from ruamel.yaml.resolver import implicit_resolvers

from pipeline.io import folder_records
from pipeline.io.errors import InputError, writing
from pipeline.io.folder_records import RECORD, unchanged

LINKS = 40  # that a system follows one after the other
DEVICES = (Path("/proc"), Path("/sys"))


@dataclass(frozen=True)
class Contents:
    """A kind of folder that a stage writes whole; `by` names the kind in its record (folder_records.py).

    `earlier` says of a folder without a record whether a version of before the records wrote it.
    """

    by: str
    earlier: Callable[[Path], bool] | None = field(default=None, repr=False)

    def check(self, path: Path) -> None:
        """Raise InputError where a folder of this kind must not replace what `path` is."""
        with writing(path):
            if path.name in ("", ".."):
                raise InputError(f"{path} cannot be replaced; name a folder below it")
            _check_no_device(path)
            if path.is_symlink():
                raise InputError(
                    f"{path} is a link, which a folder does not replace; name another, or remove it"
                )
            if path.is_dir():
                recorded = os.path.lexists(path / RECORD)
                if recorded or self.earlier is None or not self.earlier(path):
                    folder_records.check(path, self.by)
            elif path.exists():
                raise InputError(f"{path} is a file, which a folder does not replace; name another")

    def to_write(self, text: str) -> Path:
        """An argument that names such a folder; raises as `check` does."""
        self.check(path := Path(text))
        return path

    def note(self, path: Path, names: Iterable[str]) -> None:
        """Record files that a stage is about to write into the folder `path`, and changes until its end."""
        write_json(path / RECORD, folder_records.record(self.by, dict.fromkeys(names)))

    def seal(self, path: Path) -> None:
        """Record all files of the folder `path` as they are."""
        write_json(path / RECORD, folder_records.described(path, self.by))


@dataclass(frozen=True)
class Files:
    """Single files that a stage writes into a folder of other files, by name."""

    by: str
    names: tuple[str, ...]

    def check(self, folder: Path) -> None:
        """Raise InputError where one of the files there is neither in the stage's record nor in git."""
        with writing(folder):
            recorded = folder_records.recorded(folder, self.by)
            if recorded is None and os.path.lexists(folder / RECORD):
                raise InputError(
                    f"{folder / RECORD} is of another command, or damaged; name another folder, or remove "
                    "the file if nothing there is to be kept"
                )
            known = recorded or {}
            for file in (folder / name for name in self.names):
                check_file(file)
                if not file.exists() or (file.name in known and unchanged(file, known[file.name])):
                    continue
                if not _in_git(file):
                    raise InputError(
                        f"{file} was not written by this command, or was changed since, and would be lost; "
                        "name another folder, or move the file away"
                    )

    def to_write(self, text: str) -> Path:
        """An argument that names the folder; raises as `check` does."""
        self.check(folder := Path(text))
        return folder

    @contextmanager
    def written(self, folder: Path) -> Iterator[None]:
        """Write or remove the files in the block, and record those that are there then."""
        self.check(folder)
        write_json(folder / RECORD, folder_records.record(self.by, dict.fromkeys(self.names)))
        try:
            yield
        finally:
            there = [name for name in self.names if (folder / name).exists()]
            marks = {name: folder_records.mark(folder / name) for name in there}
            write_json(folder / RECORD, folder_records.record(self.by, marks))


def _in_git(file: Path) -> bool:
    """Return whether the last commit has exactly this file, so that nothing of it can be lost."""
    command = ["git", "-C", str(file.parent), "cat-file", "blob", f"HEAD:./{file.name}"]
    try:
        return subprocess.run(command, capture_output=True, check=True).stdout == file.read_bytes()
    except (OSError, subprocess.CalledProcessError):  # no git, no repository, or not in it
        return False


def file_to_write(text: str) -> Path:
    """An argument that names a file to write; raises as `check_file` does."""
    check_file(path := Path(text))
    return path


def check_file(path: Path) -> None:
    """Raise InputError where a file must not replace what `path` is."""
    with writing(path):
        if path.is_dir():
            raise InputError(f"{path} is a folder, which a file does not replace; name a file")
        _check_no_device(path)
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is no regular file, and is not replaced; name another")


def _check_no_device(path: Path) -> None:
    """Raise InputError for a place among devices, and for a link that leads to one by any other link.

    /dev/stdout looks like a regular file where the shell has redirected it to one.
    """
    place = path
    for _ in range(LINKS):
        parent = Path(os.path.realpath(place.parent))
        if parent == Path("/dev") or any(parent.is_relative_to(folder) for folder in DEVICES):
            break
        if not place.is_symlink():
            return
        place = place.parent / place.readlink()
    raise InputError(f"{path} is a device, or leads to one or nowhere, and is not replaced; name a file")


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
        beside = free_name(path)
        try:
            yield beside
            settle(beside)
            place(beside, path, contents)
        finally:
            remove(beside)


def free_name(path: Path) -> Path:
    """A name beside `path` that nothing has."""
    names = (f".{path.name}.{os.getpid()}{'_' * number}.partial" for number in count())
    return next(each for each in map(path.with_name, names) if not os.path.lexists(each))


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
        if contents is not None and any(made.iterdir()):
            contents.seal(made)
        if not path.is_dir():
            made.replace(path)
            return
        # a kill leaves the one folder or the other, whole
        aside = free_name(path)
        path.replace(aside)
        try:
            made.replace(path)
        finally:
            if not os.path.lexists(path):
                aside.replace(path)
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
    """A value as YAML, as pipeline/io/inputs.py reads it, in the keys' own order; `flow`: in one line."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=width, default_flow_style=flow)
