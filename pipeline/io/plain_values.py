"""Values from YAML and JSON files of anybody as typed records: nothing odd, nothing long, nothing deep."""

import json
from pathlib import Path
from typing import Any, TypeVar

from pipeline.io.errors import InputError
from pipeline.io.records import parsed

Value = TypeVar("Value")
DEEPEST = 64  # lists and objects within each other
LONGEST = 1000  # letters of a text: more than a caption's


def read(path: Path, kind: type[Value], record: Any, remedy: str) -> Value:
    """Return the record as that type. Raises InputError naming the key that does not fit it."""
    if fault := _not_plain(record):
        raise InputError(f"{path}: {fault}; {remedy}")
    # as JSON a dictionary may be a dataclass, and is converted no more
    return parsed(kind, json.dumps(record), str(path), remedy)


def _not_plain(record: Any) -> str | None:
    """What no file of ours holds: dates, numbers beyond 64 bits, keys that are no text, length, depth."""
    waiting: list[tuple[str, Any, int]] = [("", record, 0)]
    while waiting:
        key, value, depth = waiting.pop()
        where = f"{key[:80]}: " if key else ""
        if depth > DEEPEST:
            return f"{key[:80]} …: more than {DEEPEST} lists and objects within each other"
        if isinstance(value, dict):
            if odd := [each for each in value if not isinstance(each, str)]:
                return f"{where}the key {odd[0]!s:.80} is no text"
            if long := next((each for each in value if len(each) > LONGEST), None):
                return f"{where}a key of {len(long):,} letters, which has {LONGEST:,} at most"
            waiting += [(f"{key}.{name}".strip("."), each, depth + 1) for name, each in value.items()]
        elif isinstance(value, str) and len(value) > LONGEST:
            return f"{where}a text of {len(value):,} letters, which has {LONGEST:,} at most"
        elif isinstance(value, list):
            waiting += [(key, each, depth + 1) for each in value]
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            return f"{where}a whole number beyond 64 bits"
        elif not isinstance(value, str | int | float | None):
            return f"{where}a {type(value).__name__}, which no file of ours holds"
    return None
