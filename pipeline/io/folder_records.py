"""The record .made.json in a folder that a stage wrote: the folder's kind, and the names of its files.

A kind is a name such as "weights". A stage replaces a folder only if all its files are in the record. DVC
ignores the record (.dvcignore), so that DVC's hash of a folder depends only on the folder's contents.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json

RECORD = ".made.json"
LARGEST = 64 << 20  # maximum size in bytes of a record, enough for half a million files


def record(by: str, files: Iterable[str]) -> dict[str, Any]:
    """Return the record of a folder with these files; `by` is the folder's kind."""
    return {"by": by, "files": sorted(files)}


def described(folder: Path, by: str) -> dict[str, Any]:
    """Return a record of the files that a folder has now."""
    return record(by, (name for name in entries(folder) if name != RECORD))


def recorded(folder: Path, by: str) -> set[str] | None:
    """Return the names of the files in a folder's record; None without a valid record of the kind `by`."""
    try:
        found = read_json(folder / RECORD, "move it away", LARGEST)
    except InputError:
        return None
    if not isinstance(found, dict) or found.get("by") != by:
        return None
    return {str(name) for name in found.get("files", ())}  # earlier versions wrote a hash after each name


def check(folder: Path, by: str) -> None:
    """Raise InputError if the folder has a file that is not in its record of the kind `by`."""
    known = recorded(folder, by)
    for name in entries(folder):
        if known is None or name not in known | {RECORD}:
            without = f" (it has no record {RECORD} of this command)" if known is None else ""
            raise InputError(
                f"{folder} holds {name!r}, which was not written by what would replace the folder{without}; "
                "name another folder, or move or remove this one"
            )


def entries(folder: Path) -> Iterator[str]:
    """Yield the relative paths of all files and links below a folder, in order."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_dir():
            yield str(path.relative_to(folder))
