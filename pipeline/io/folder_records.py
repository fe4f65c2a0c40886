"""The record .made.json in a folder that a stage wrote: the kind of folder, and each file's hash or size.

A folder is replaced only if all its files are in its record and unchanged. The record is deterministic. DVC
ignores it (.dvcignore), so an output's hash depends only on its contents.
"""

import hashlib
import os
from collections.abc import Iterator
from itertools import starmap
from pathlib import Path
from typing import Any

from pipeline.io.errors import InputError
from pipeline.io.inputs import opened, read_json

RECORD = ".made.json"
LARGEST = 64 << 20  # bytes of a record: half a million files
HASHED = 8 << 20  # bytes: larger files are recorded by size, for a store may have 48 GB
Mark = str | int | None
"""A file's SHA-256, or the size of a large file; None for a file that its stage still changes."""


def described(folder: Path, by: str) -> dict[str, Any]:
    """Return the record of a folder of the kind `by` as it is now."""
    names = [name for name in entries(folder) if name != RECORD and (folder / name).is_file()]
    return record(by, {name: mark(folder / name) for name in names})


def record(by: str, files: dict[str, Mark]) -> dict[str, Any]:
    """Return the record of a folder of the kind `by` with these files."""
    return {"by": by, "files": files}


def recorded(folder: Path, by: str) -> dict[str, Mark] | None:
    """Return the marks in a folder's record, by file; None without a valid record of this kind."""
    if (folder / RECORD).is_symlink():
        return None
    try:
        found = read_json(folder / RECORD, "move it away", LARGEST)
    except InputError:
        return None
    own = isinstance(found, dict) and found.get("by") == by and isinstance(found.get("files"), dict)
    return found["files"] if own and all(starmap(_is_entry, found["files"].items())) else None


def _is_entry(name: str, mark: Any) -> bool:
    """Return whether a record may have this entry: a path within the folder, and a mark."""
    within = not name.startswith("/") and ".." not in name.split("/")
    return within and (mark is None or (isinstance(mark, (str, int)) and not isinstance(mark, bool)))


def check(folder: Path, by: str) -> None:
    """Raise InputError if a file of the folder is not in its record of this kind, or was changed.

    Raises OSError if a file cannot be read.
    """
    known = recorded(folder, by)
    for name in entries(folder):
        if name == RECORD and known is not None:
            continue
        if known is None or name not in known or not (folder / name).is_file():
            old = known is None
            without = f" (it has no record {RECORD} of this command)" if old else ""
            raise InputError(
                f"{folder} holds {name!r}, which was not written by what would replace the folder{without}; "
                f"name another folder, or move {'or remove this one' if old else 'that away'}"
            )
        if not unchanged(folder / name, known[name]):
            raise InputError(
                f"{folder / name} was changed since it was written, and would be lost; name another folder, "
                "or move the file away"
            )


def unchanged(file: Path, known: Mark) -> bool:
    """Return whether a regular file has the mark of its record."""
    return known is None or mark(file) == known


def mark(file: Path) -> Mark:
    """Return the mark of a file. Raises InputError if it is not a regular file."""
    with opened(file, largest=1 << 62) as data:
        size = os.fstat(data.fileno()).st_size
        return size if size > HASHED else hashlib.sha256(data.read()).hexdigest()


def entries(folder: Path) -> Iterator[str]:
    """Yield the names of all files below a folder, of links to folders, and of empty folders."""

    def fail(error: OSError) -> None:
        raise error

    for parent, folders, names in os.walk(folder, onerror=fail):
        below = Path(parent).relative_to(folder)
        folders.sort()
        yield from (str(below / name) for name in sorted(names))
        yield from (str(below / name) for name in folders if (folder / below / name).is_symlink())
        if not (folders or names or below == Path()):
            yield str(below)
