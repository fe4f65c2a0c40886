"""The record .made.json of a folder that a stage wrote: the folder's kind, and a mark of each file.

The record is in the folder. The record of the Zarr store NAME is next to the store, in .NAME.made.json,
because Zarr's readers warn about each file in a store that does not belong to the format.

A kind is a name such as "weights". The mark of a file is its hash, or None if the stage still changes the
file. A stage replaces a folder only if all files of the folder are recorded and unchanged. DVC ignores the
record (.dvcignore), so DVC's hash of a folder depends only on its other files.
"""

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.io.errors import InputError
from pipeline.io.inputs import opened, read_json

RECORD = ".made.json"
LARGEST = 64 << 20  # maximum size in bytes of a record, enough for half a million files
Mark = str | None
"""SHA-256 of a file, or None for a file that its stage still changes."""


def record(kind: str, files: Mapping[str, Mark]) -> dict[str, Any]:
    return {"by": kind, "files": dict(files)}


def record_of_files(folder: Path, kind: str) -> dict[str, Any]:
    """Return a .made.json of the files, apart from itself, that the folder has now."""
    names = [name for name in entries(folder) if name != RECORD and (folder / name).is_file()]
    return record(kind, {name: _sha256(folder / name) for name in names})


def file_next_to(folder: Path) -> Path:
    """Return the path of a folder's record if it is next to the folder, for example .grid.zarr.made.json."""
    folder = folder.absolute()  # "." has no name
    return folder.with_name(f".{folder.name}{RECORD}")


def recorded(folder: Path, kind: str) -> dict[str, Mark] | None:
    """Return the marks in a folder's record: file -> mark.

    Returns None if the folder has no valid record, or a record of another kind than `kind`, such as
    "weights". A mark is a file's SHA-256, or None if the file may still change.
    """
    try:
        # a record in the folder is newer: `outputs.place` moves it when the folder has its final name
        file = folder / RECORD if os.path.lexists(folder / RECORD) else file_next_to(folder)
        content = read_json(file, "move it away", LARGEST)
    except InputError:
        return None
    if not isinstance(content, dict) or content.get("by") != kind:
        return None
    files = content.get("files")
    return files if isinstance(files, dict) else None


def check(folder: Path, kind: str) -> None:
    """Raise InputError if the folder has a file that a stage must not overwrite.

    This is a file that is not in the folder's record, or that was changed after it was recorded. If the
    folder has no valid record of the kind `kind`, every file counts as not recorded.
    """
    marks = recorded(folder, kind)
    for name in entries(folder):
        if name == RECORD and marks is not None:
            continue
        if marks is None or name not in marks:
            note = f" (it has no record {RECORD} of this command)" if marks is None else ""
            raise InputError(
                f"{folder} holds {name!r}, which was not written by what would replace the folder{note}; "
                "name another folder, or move or remove this one"
            )
        if not _is_unchanged(folder / name, marks[name]):
            raise InputError(
                f"{folder / name} was changed since it was written, and would be lost; name another folder, "
                "or move the file away"
            )


def _is_unchanged(file: Path, mark: Mark) -> bool:
    return mark is None or _sha256(file) == mark


def _sha256(file: Path) -> str:
    """Return the SHA-256 of a file. Raises InputError if the file is not regular."""
    with opened(file, largest=sys.maxsize) as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def entries(folder: Path) -> Iterator[str]:
    """Yield the relative paths of all files and links below a folder, in order."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_dir():
            yield str(path.relative_to(folder))
