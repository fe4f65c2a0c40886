"""The rows of a table of pairs, from .csv or .jsonl: line by line, a wrong one told and not fatal.

Both forms give the same: the named values that are there. An empty field of a .csv, and null in a .jsonl, are
values that are not there.
"""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.inputs import read_lines, read_text

NAMES = ("pairs.csv", "pairs.jsonl")
REMEDY = "data/README.md says what stands in a table of pairs"
MORE = re.compile(r"caption_\d{1,3}")


@dataclass(frozen=True)
class Row:
    """One row; `fault` says why it is none."""

    line: int  # of the file, from 1; of a field of several lines its last
    values: dict[str, Any]
    fault: str | None = None


def find(folder: Path) -> Path:
    """The folder's table. Raises InputError where it has none, or two."""
    found = [folder / name for name in NAMES if (folder / name).is_file()]
    if len(found) != 1:
        have = " and ".join(path.name for path in found) or "neither"
        raise InputError(f"{folder} must hold {' or '.join(NAMES)}, and has {have}; {REMEDY}")
    return found[0]


def read_rows(path: Path) -> list[Row]:
    """The rows of a table, by its extension. Raises InputError where the file holds none."""
    rows = list(_csv(path) if path.suffix.lower() == ".csv" else _json_lines(path))
    if not rows:
        raise InputError(f"{path} has no row; {REMEDY}")
    return rows


def _csv(path: Path) -> Iterator[Row]:
    # spreadsheets begin their files with a mark, and some of them write semicolons
    text = read_text(path, REMEDY).removeprefix("\ufeff")
    head = text.partition("\n")[0]
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=";" if head.count(";") > head.count(",") else ",",
        strict=True,
    )
    try:
        names = _header(path, next(reader, []))
        for fields in reader:
            if any(field.strip() for field in fields):
                yield _row(reader.line_num, names, fields)
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}; {REMEDY}") from None


def _header(path: Path, fields: list[str]) -> list[str]:
    names = [field.strip().lower() for field in fields]
    if not {"before", "after"} <= set(names):
        raise InputError(
            f"{path}: its first line must name the columns, before and after among them; {REMEDY}"
        )
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(f"{path}: its first line names {twice[0]!r} more than once; {REMEDY}")
    return names


def _row(line: int, names: list[str], fields: list[str]) -> Row:
    if len(fields) != len(names):
        return Row(line, {}, f"{len(fields)} fields, not {len(names)}: put quotation marks round commas")
    values: dict[str, Any] = {}
    for name, field in zip(names, fields, strict=True):
        if not (value := field.strip()):
            continue
        if MORE.fullmatch(name):
            values.setdefault("captions", []).append(value)
        else:
            values[name] = value
    return Row(line, values)


def _json_lines(path: Path) -> Iterator[Row]:
    for number, line in enumerate(read_lines(path, REMEDY), 1):
        if line.strip():
            yield _object(number, line)


def _object(number: int, line: str) -> Row:
    try:
        value = json.loads(line)
        json.dumps(value, ensure_ascii=False).encode()  # half a character, which no file can hold
    except (ValueError, RecursionError) as error:
        return Row(number, {}, f"not valid JSON ({error})")
    if not isinstance(value, dict):
        return Row(number, {}, f"{type(value).__name__}, not an object")
    return Row(number, {key: each for key, each in value.items() if each is not None})
