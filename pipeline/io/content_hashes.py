"""Hashes in a JSON record, of the record itself and of the files that it describes."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.io.errors import InputError
from pipeline.io.inputs import opened

KEY, RECORD = "hashes", "record"  # key of all hashes in a record; key of the record's own hash among them
LARGEST = 1 << 40  # maximum size in bytes of a file


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file, which is read in blocks. Raises OSError if the file cannot be read."""
    with opened(path, LARGEST) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_json(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def file_hash(path: str | Path, remedy: str = "") -> str:
    """Return the SHA-256 of a file. Raises InputError, which ends with `remedy`, if it cannot be read."""
    try:
        return sha256(path)
    except OSError as error:
        end = f"; {remedy}" if remedy else ""
        raise InputError(f"{path} cannot be read ({error.strerror}){end}") from None


def with_hashes(record: Mapping[str, Any], hashes: Mapping[str, str]) -> dict[str, Any]:
    """Return a copy of the record with `hashes` and its own hash, "record", in the key "hashes"."""
    hashed = {**record, KEY: dict(hashes)}
    hashed[KEY][RECORD] = _record_hash(hashed)
    return hashed


def read(path: str | Path, record: Any, remedy: str) -> dict[str, str]:
    """Return the hashes in `record`, the content of the JSON file `path`: name -> hash.

    The record's own hash has the name RECORD. Raises InputError, which ends with `remedy`, if the record has
    no hashes or was edited.
    """
    hashes = record.get(KEY) if isinstance(record, dict) else None
    if not isinstance(hashes, dict) or not all(isinstance(value, str) for value in hashes.values()):
        raise InputError(f"{path}: {KEY} must have a hash for each name; {remedy}")
    if hashes.get(RECORD) != _record_hash(record):
        raise InputError(f"{path} was changed since it was written (its {KEY}.{RECORD}); {remedy}")
    return hashes


def check(path: str | Path, hashes: Mapping[str, str], name: str, file: str | Path, remedy: str) -> None:
    """Raise InputError, which names the record `path`, if the hash of `file` is not the one in `hashes`."""
    if name in hashes and file_hash(file) != hashes[name]:
        raise InputError(f"{file} is not the file that {path} names by {KEY}.{name}; {remedy}")


def _record_hash(record: Mapping[str, Any]) -> str:
    other_hashes = {name: value for name, value in record[KEY].items() if name != RECORD}
    return of_json({**record, KEY: other_hashes})
