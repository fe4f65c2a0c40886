"""The record .made.json in a folder that a stage wrote: the kind of folder, and a hash or size of each file.

A stage replaces a folder only if all its files are in the record and unchanged. Equal folders have equal
records. DVC ignores the record (.dvcignore), so that DVC's hash of a folder depends only on the folder's
contents.
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
LARGEST = 64 << 20  # maximum size in bytes of a record, enough for half a million files
HASHED = 8 << 20  # maximum size in bytes of a file that is hashed; only the size of a larger file is recorded
Mark = str | int | None
"""The SHA-256 of a file, the size of a large file, or None for a file that its stage still changes."""


def described(folder: Path, by: str) -> dict[str, Any]:
    """Return a record of the files that a folder has now. `by` is the folder's kind."""
    names = [name for name in entries(folder) if name != RECORD and (folder / name).is_file()]
    return record(by, {name: mark(folder / name) for name in names})


def record(by: str, files: dict[str, Mark]) -> dict[str, Any]:
    """Return a record of these files and their marks. `by` is the folder's kind."""
    return {"by": by, "files": files}


def recorded(folder: Path, by: str) -> dict[str, Mark] | None:
    """Read a folder's record. Return a dictionary: file -> mark (hash or size).

    Return None if the folder has no valid record of the kind `by`.
    """
    if (folder / RECORD).is_symlink():
        return None
    try:
        found = read_json(folder / RECORD, "move it away", LARGEST)
    except InputError:
        return None
    own = isinstance(found, dict) and found.get("by") == by and isinstance(found.get("files"), dict)
    return found["files"] if own and all(starmap(_is_entry, found["files"].items())) else None


def _is_entry(name: str, mark: Any) -> bool:
    """Return True if the entry of a record is valid: a path inside the folder, and a mark."""
    within = not name.startswith("/") and ".." not in name.split("/")
    return within and (mark is None or (isinstance(mark, (str, int)) and not isinstance(mark, bool)))


def check(folder: Path, by: str) -> None:
    """Raise InputError if a file of the folder has changed, or is not in the folder's record.

    Without a record of the kind `by`, every file counts as not recorded. Raises OSError if a file cannot be
    read.
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
    """Return True if a file still has its recorded mark `known`. The mark None fits every file."""
    return known is None or mark(file) == known


def mark(file: Path) -> Mark:
    """Return the mark of a file. Raises InputError if the file is not regular."""
    with opened(file, largest=1 << 62) as data:
        size = os.fstat(data.fileno()).st_size
        return size if size > HASHED else hashlib.sha256(data.read()).hexdigest()


def entries(folder: Path) -> Iterator[str]:
    """Yield the relative paths of all files, links to folders, and empty folders below a folder."""

    def fail(error: OSError) -> None:
        raise error

    for parent, folders, names in os.walk(folder, onerror=fail):
        below = Path(parent).relative_to(folder)
        folders.sort()
        yield from (str(below / name) for name in sorted(names))
        yield from (str(below / name) for name in folders if (folder / below / name).is_symlink())
        if not (folders or names or below == Path()):
            yield str(below)
