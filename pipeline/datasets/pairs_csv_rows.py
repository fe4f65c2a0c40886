"""Read the rows of a table of pairs, from a .csv or .jsonl file. A wrong row is returned with its fault.

An empty field of a .csv file and a null of a .jsonl file count as absent. If a fault could hide other rows,
for example a stray quotation mark, the whole table is refused with an InputError that names the line.
"""

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.datasets import similar_names
from pipeline.io.errors import InputError
from pipeline.io.inputs import json_of, read_lines, read_text

NAMES = ("pairs.csv", "pairs.jsonl")
ENDINGS = (".csv", ".tsv", ".jsonl")
REMEDY = "data/README.md describes a table of pairs"
CAPTIONS = re.compile(r"captions|caption_\d{1,3}")  # columns that are collected in the list `captions`
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
SEP = re.compile(r'"?sep=([,;\t|])"?')  # Excel's first line, which names the delimiter
BLANK = ',;\t|" \n'  # characters of a line without column names
LARGEST = 1 << 27  # maximum size in bytes of a table; the csv module limits a field to 131,072 characters
QUOTES_REMEDY = 'write a quotation mark that is text twice (""), in a field with quotation marks round it'


@dataclass(frozen=True)
class PairsRow:
    """One row of a table of pairs.

    values: column name -> value, captions as a list in a CSV table; incomplete if the row has a fault
    fault: message that says what is wrong; None for a row without a fault
    """

    line: int  # the row's first line in the file, from 1
    values: dict[str, Any]
    fault: str | None = None


def find(folder: Path) -> Path:
    """Return the path of the only table in a folder: pairs.csv or pairs.jsonl."""
    if not folder.is_dir():
        fault = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {fault}; name the folder that holds {' or '.join(NAMES)}")
    tables = [folder / name for name in NAMES if (folder / name).is_file()]
    if len(tables) != 1:
        hint = next(filter(None, (similar_names.hint(folder / name, folder) for name in NAMES)), "")
        present = " and ".join(path.name for path in tables) or f"neither{hint}"
        raise InputError(f"{folder} must hold {' or '.join(NAMES)}, and has {present}; {REMEDY}")
    return tables[0]


def default_pair_id(before: str, after: str) -> str:
    return f"{before}+{after}"


def read_rows(path: Path) -> list[PairsRow]:
    """Return the rows of a .csv or .jsonl table; a row with a fault has a message.

    Faults that could hide rows (wrong column names, a stray quotation mark) and an empty table are
    InputErrors.
    """
    if path.suffix.lower() == ".jsonl":
        lines = enumerate(read_lines(path, REMEDY, LARGEST), 1)
        rows = [_json_row(number, line) for number, line in lines if line.strip()]
    else:
        rows = _csv_rows(path)
    if not rows:
        raise InputError(f"{path} has no row; {REMEDY}")
    return rows


def _csv_rows(path: Path) -> list[PairsRow]:
    file = io.StringIO(read_text(path, REMEDY, LARGEST), newline="\n")
    head_line, names, delimiter = _head(path, file)
    reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
    rows, line = [], head_line + 1
    try:
        for fields in reader:
            last_line = head_line + reader.line_num
            if any(delimiter in field.partition("\n")[2] for field in fields):
                raise InputError(
                    f"{path}, line {line}: a quotation mark opens a field that ends in line {last_line}, and "
                    f"there are rows in between; {QUOTES_REMEDY}, and a text that has several lines and a "
                    f"{DELIMITERS[delimiter]} in one line"
                )
            if any(map(str.strip, fields)):
                rows.append(_csv_row(line, names, delimiter, fields))
            line = last_line + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {line}: {error}; {QUOTES_REMEDY}") from None
    return rows


def _head(path: Path, file: io.StringIO) -> tuple[int, list[str], str]:
    """Read `file` up to the line with the column names. Return the line's number, names and delimiter."""
    number, line, delimiters = 0, "", "".join(DELIMITERS)
    for line in file:
        number += 1
        if match := SEP.fullmatch(line.strip()):
            delimiters = match[1]
        elif line.strip(BLANK):
            break
    location = f"{path}, line {max(number, 1)}"
    for delimiter in delimiters:
        names = _column_names(line, delimiter)
        if {"before", "after"} <= set(names):
            if repeated := [name for name, count in Counter(filter(None, names)).items() if count > 1]:
                raise InputError(f"{location} names {repeated[0]!r} more than once; {REMEDY}")
            return number, names, delimiter
    raise InputError(
        f"{location} must name the columns, including before and after, but is {line.strip()!r:.80}; {REMEDY}"
    )


def _column_names(line: str, delimiter: str) -> list[str]:
    """Return a line's fields as column names; empty if the line cannot be parsed with this delimiter."""
    try:
        fields = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True), [])
    except csv.Error:
        return []
    return [field.strip().lower() for field in fields]


def _csv_row(line: int, names: list[str], delimiter: str, fields: list[str]) -> PairsRow:
    """Return the row of a line; a field without a column, or a missing image, is the row's fault."""
    values: dict[str, Any] = {}
    for column, field in enumerate(fields):
        if not (value := field.strip()):
            continue
        if column >= len(names) or not (name := names[column]):
            remedy = f"name it, or put quotation marks round a {DELIMITERS[delimiter]}"
            return PairsRow(line, {}, f"{value!r:.80} is in column {column + 1}, which has no name: {remedy}")
        if CAPTIONS.fullmatch(name):
            values.setdefault("captions", []).append(value)
        else:
            values[name] = value
    missing = [name for name in ("before", "after") if name not in values]
    return PairsRow(line, values, f"{missing[0]} is missing" if missing else None)


def _json_row(number: int, line: str) -> PairsRow:
    try:
        value = json_of(line, "it", "write one JSON object a line, and nothing behind it")
    except InputError as error:
        return PairsRow(number, {}, str(error))
    if not isinstance(value, dict):
        return PairsRow(number, {}, f"{type(value).__name__}, not an object")
    return PairsRow(number, {key: field for key, field in value.items() if field is not None})
