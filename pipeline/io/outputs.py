"""Write outputs atomically: after an interruption an output is complete or does not exist.

A file replaces only a file. A folder replaces a folder only if the same command wrote all files of the old
folder, and if none of them was changed since (folder_records.py). Outputs may be read-only links into DVC's
cache, so an existing output is never changed. A new output is written next to its final name, on the same
file system, and renamed.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from ruamel.yaml.resolver import implicit_resolvers

from pipeline.io import folder_records
from pipeline.io.errors import InputError, writing
from pipeline.io.folder_records import RECORD


@dataclass(frozen=True)
class Contents:
    """Kind of an output folder, such as weights or curves.

    `by` is the name of the kind, for example "weights". The record of a folder, the file .made.json,
    stores this name under the key "by". A folder that is not empty is replaced only by a folder of the
    same kind. If `record_outside` is True, the record is next to the folder.
    """

    by: str
    record_outside: bool = False

    def check(self, path: Path) -> None:
        """Raise InputError if a folder of this kind must not be written to `path`.

        It can be written if `path` does not exist, is empty, or is a folder of the same kind with a record
        of all its files, none of which was changed since.
        """
        with writing(path):
            if path.name in ("", ".."):
                raise InputError(f"{path} cannot be replaced; name a folder below it")
            if path.is_symlink() or (path.exists() and not path.is_dir()):
                raise InputError(f"{path} is a file or a link, which a folder does not replace; name another")
            folder_records.check(path, self.by)

    def to_write(self, text: str) -> Path:
        """Convert a command-line argument to a folder that may be written; a `type=` of add_argument."""
        self.check(path := Path(text))
        return path

    def note(self, path: Path, names: Iterable[str]) -> None:
        """List `names` in the folder's .made.json, without hashes, before a stage writes these files."""
        write_json(path / RECORD, folder_records.record(self.by, dict.fromkeys(names)))

    def seal(self, path: Path) -> None:
        write_json(path / RECORD, folder_records.record_of_files(path, self.by))


def file_to_write(text: str) -> Path:
    """Convert a command-line argument to a file that may be written; a `type=` of add_argument."""
    check_file(path := Path(text))
    return path


def check_file(path: Path) -> None:
    """Raise InputError if `path` exists and must not be replaced by a file."""
    with writing(path):
        if path.is_dir():
            raise InputError(f"{path} is a folder, which a file does not replace; name a file")
        # /dev/stdout looks like a regular file if the shell redirects it to a file
        if (path.exists() and not path.is_file()) or path.absolute().parent == Path("/dev"):
            raise InputError(f"{path} is no regular file, and is not replaced; name a file")


def check(path: Path, contents: Contents | None) -> None:
    check_file(path) if contents is None else contents.check(path)


@contextmanager
def replacing(path: str | Path, contents: Contents | None = None) -> Iterator[Path]:
    """Yield a temporary path next to `path`. Rename it to `path` if the `with` block succeeds.

    The block must write the temporary path: a file if `contents` is None, otherwise a folder of the
    kind `contents`, such as weights. Raises InputError if `path` cannot be written, or must not be
    replaced (see the module): for example, if a folder has a file that was changed after it was
    written.
    """
    path = Path(path)
    check(path, contents)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary_path = free_name(path)
        try:
            yield temporary_path
            flush_to_disk(temporary_path)
            place(temporary_path, path, contents)
        finally:
            remove(temporary_path)


def free_name(path: Path) -> Path:
    """Return an unused name next to `path`."""
    names = (f".{path.name}.{os.getpid()}{'_' * number}.partial" for number in count())
    return next(candidate for candidate in map(path.with_name, names) if not os.path.lexists(candidate))


def flush_to_disk(output: Path) -> None:
    """Flush a file, or a folder with its files, to disk, so that a power cut leaves no empty files."""
    for path in (output, *output.rglob("*")):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def place(new_path: Path, path: Path, contents: Contents | None = None) -> None:
    """Rename `new_path` to `path`, and replace an existing `path`. Both must be on the same file system.

    `new_path` is a file if `contents` is None, else a folder of the kind `contents`. Raises InputError if
    `path` cannot or must not be replaced.
    """
    assert new_path.is_dir() == (contents is not None)
    check(path, contents)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if contents is not None and any(new_path.iterdir()):
            contents.seal(new_path)
        if path.is_dir():
            _exchange(new_path, path)
        else:
            new_path.replace(path)
        if contents is not None and contents.record_outside and (path / RECORD).exists():
            (path / RECORD).replace(folder_records.file_next_to(path))


def _exchange(new_path: Path, path: Path) -> None:
    """Rename the folder `new_path` to `path`, and remove the old folder `path`.

    If the process is killed meanwhile, the old or the new folder is left, complete.
    """
    old_path = free_name(path)
    path.replace(old_path)
    try:
        new_path.replace(path)
    finally:
        if not os.path.lexists(path):
            old_path.replace(path)
        remove(old_path)


def remove(path: Path) -> None:
    """Remove a file or a folder. Nothing happens if the path does not exist."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file, completely or not at all."""
    with replacing(path) as temporary_path:
        temporary_path.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def write_json_lines(path: str | Path, values: Iterable[Any]) -> None:
    """Write one JSON value per line. Keys keep their order."""
    with replacing(path) as temporary_path, temporary_path.open("w", encoding="utf-8") as file:
        for value in values:
            file.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")


class _Dumper(yaml.SafeDumper):
    """A YAML 1.1 dumper. It also quotes the texts that YAML 1.2 would read as another type."""


for _versions, _tag, _form, _first in implicit_resolvers:
    if (1, 2) in _versions:
        _Dumper.add_implicit_resolver(_tag, _form, _first)


def yaml_of(value: Any, width: int = 80, flow: bool = False) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=width, default_flow_style=flow)
