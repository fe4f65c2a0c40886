"""Hashes in a JSON record: of the files that it was made from, and of the record itself.

Readers of the record and its files compare them, so an exchanged or damaged file is named. Records of earlier
versions have no hashes: they are accepted with a note.
"""

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.io.errors import InputError, printable
from pipeline.io.inputs import opened

KEY, RECORD = "hashes", "record"  # RECORD in `hashes` is the record's own hash
LARGEST = 1 << 40  # bytes of a file
_noted: set[str] = set()  # paths of records without hashes, each noted once


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file, read in blocks. Raises OSError if it cannot be read."""
    with opened(path, LARGEST) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_json(value: Any) -> str:
    """Return the SHA-256 of a value as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def file_hash(path: str | Path) -> str:
    """Return the SHA-256 of a file. Raises InputError if it cannot be read."""
    try:
        return sha256(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from None


def with_hashes(record: Mapping[str, Any], hashes: Mapping[str, str]) -> dict[str, Any]:
    """Return the record with `hashes` and a hash of the record itself."""
    found = {**record, KEY: dict(hashes)}
    found[KEY][RECORD] = _own(found)
    return found


def read(path: str | Path, record: Any, remedy: str) -> dict[str, str]:
    """Return the hashes in a record that was read from `path`; {} with a note if it has none.

    Raises InputError if the record was changed since it was written.
    """
    found = record.get(KEY) if isinstance(record, dict) else None
    if found is None:
        if str(path) not in _noted:
            _noted.add(str(path))
            note = f"note: {path} has no hashes, so it and the files that it was made of are not compared"
            print(printable(note), file=sys.stderr)
        return {}
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InputError(f"{path}: {KEY} are not a hash for each name; {remedy}")
    if found.get(RECORD) != _own(record):
        raise InputError(f"{path} was changed since it was written (its {KEY}.{RECORD}); {remedy}")
    return found


def check(path: str | Path, hashes: Mapping[str, str], name: str, file: str | Path, remedy: str) -> None:
    """Raise InputError if the hash of `file` is not the one that the record at `path` has under `name`."""
    if name in hashes and file_hash(file) != hashes[name]:
        raise InputError(f"{file} is not the file that {path} names by {KEY}.{name}; {remedy}")


def _own(record: Mapping[str, Any]) -> str:
    """Return the hash of a record without this hash."""
    others = {name: value for name, value in record[KEY].items() if name != RECORD}
    return of_json({**record, KEY: others})
