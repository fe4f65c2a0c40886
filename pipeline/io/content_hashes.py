"""Signed artefacts: a file names the hashes of the files that it was made from, and `verify` compares them.

The key "hashes" of a JSON record has a hash for each role, such as "pairs" or "weights". The role "record" is
the record itself, and "run" is the name of the run (DATASET/MODEL/SEED) instead of a hash.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.io.errors import InputError
from pipeline.io.inputs import opened, read_json

KEY, RECORD, RUN = "hashes", "record", "run"  # key of all hashes in a record; two roles among them
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
    """Return a copy of the record with the additional key "hashes" (KEY).

    The value of this key has `hashes`, role -> hash, and, as "record", a hash of the record itself.
    """
    hashed = {**record, KEY: dict(hashes)}
    hashed[KEY][RECORD] = _record_hash(hashed)
    return hashed


def read(path: str | Path, remedy: str) -> dict[str, str]:
    """Return the hashes in the JSON file `path`: role -> hash.

    Raises InputError, which ends with `remedy`, if the file has no hashes or was edited.
    """
    record = read_json(path, remedy)
    hashes = record.get(KEY) if isinstance(record, dict) else None
    if not isinstance(hashes, dict) or not all(isinstance(value, str) for value in hashes.values()):
        raise InputError(f"{path}: {KEY} must have a hash for each role; {remedy}")
    if hashes.get(RECORD) != _record_hash(record):
        raise InputError(f"{path} was changed since it was written (its {KEY}.{RECORD}); {remedy}")
    return hashes


def verify(
    path: str | Path,
    hashes: Mapping[Any, str],
    remedy: str,
    *,
    run: str | None = None,
    **files: str | Path | None,
) -> None:
    """Raise InputError, which ends with `remedy`, if the artefact `path` was made from other files.

    hashes: the hashes in the artefact: role -> hash. A role without a hash is not compared.
    run: the run that the artefact should be of; None: any run
    files: role -> file. A file that is None is not compared.
    """
    if run is not None and hashes.get(RUN, run) != run:
        raise InputError(f"{path} is of the run {hashes[RUN]}, not of {run}; {remedy}")
    for role, file in files.items():
        if file is not None and role in hashes and file_hash(file) != hashes[role]:
            raise InputError(f"{file} is not the file that {path} names by {KEY}.{role}; {remedy}")


def _record_hash(record: Mapping[str, Any]) -> str:
    other_hashes = {name: value for name, value in record[KEY].items() if name != RECORD}
    return of_json({**record, KEY: other_hashes})
