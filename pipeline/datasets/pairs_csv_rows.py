"""Read the rows of a table of pairs, from a .csv or .jsonl file. A wrong row is returned with its fault.

In both forms, each value of a row has the name of its column or key. An empty field of a .csv file and a null
of a .jsonl file count as absent. If a fault could hide other rows, for example a stray quotation mark, the
whole table is refused with an InputError that names the line.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.io.errors import InputError
from pipeline.io.inputs import json_of, read_lines, read_text

NAMES = ("pairs.csv", "pairs.jsonl")
ENDINGS = (".csv", ".tsv", ".jsonl")
REMEDY = "data/README.md describes a table of pairs"
MORE = re.compile(r"caption_\d{1,3}")
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
# white space, with the characters of zero width
WHITE = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\u200b\u2060\ufeff"
BLANK = "".join(DELIMITERS) + f'"{WHITE}'
SEP = re.compile(r'"?sep=(.)"?', re.IGNORECASE)  # Excel's first line, which names the delimiter
LARGEST = 1 << 27  # maximum size in bytes of a table: 130 bytes for each of a million rows
MOST_ROWS = 1_000_000  # twice the number of CLEVR-Change's captions
LONGEST = 1 << 20  # maximum number of characters in a .jsonl line; the csv module limits a field to 131,072
OF_SEVERAL = re.compile(r"\{$|\[\s*(\{|$)")  # first line of JSON that is a list or has several lines
NO_LINES = (
    "does not hold one whole JSON object; write one a line: jq -c 'if type == \"array\" then .[] else . end'"
)
TWICE = 'write a quotation mark that is text twice (""), in a field with quotation marks round it'


@dataclass(frozen=True)
class Row:
    """One row of a table. If the row has a fault, `values` may be incomplete."""

    line: int  # the row's first line in the file, from 1
    values: dict[str, Any]
    fault: str | None = None


@dataclass(frozen=True)
class _Head:
    """Column names of a .csv file ("" for a column without a name), and the file's delimiter."""

    names: list[str]
    delimiter: str

    @property
    def called(self) -> str:
        """Name of the delimiter, for messages."""
        return DELIMITERS.get(self.delimiter, repr(self.delimiter))


def find(folder: Path) -> Path:
    """Return the path of the table in a folder.

    Raises InputError if the folder is missing, or has no table or two tables.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {what}; name the folder that holds {' or '.join(NAMES)}")
    found = [folder / name for name in NAMES if (folder / name).is_file()]
    if len(found) != 1:
        have = " and ".join(path.name for path in found) or "neither"
        others = [] if found else sorted(path.name for path in folder.glob("[Pp][Aa][Ii][Rr][Ss].*"))
        more = f", but {others[0]}: save it as {NAMES[0]}" if others else ""
        raise InputError(f"{folder} must hold {' or '.join(NAMES)}, and has {have}{more}; {REMEDY}")
    return found[0]


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a table.

    Raises InputError if the table has no rows, more than MOST_ROWS, or a fault that could hide rows.
    """
    rows: list[Row] = []
    for row in _json_lines(path) if path.suffix.lower() == ".jsonl" else _csv(path):
        if len(rows) == MOST_ROWS:
            raise InputError(f"{path} has more than {MOST_ROWS:,} rows, which is the limit; divide the table")
        rows.append(row)
    if not rows:
        raise InputError(f"{path} has no row; {REMEDY}")
    return rows


def _csv(path: Path) -> Iterator[Row]:
    file = io.StringIO(read_text(path, REMEDY, LARGEST), newline="\n")
    above, head = _head(path, file)
    reader = csv.reader(file, delimiter=head.delimiter, skipinitialspace=True, strict=True)
    first, line = True, above + 1
    try:
        for fields in reader:
            if any(map(_stripped, fields)):
                where, last = f"{path}, line {line}", above + reader.line_num
                if last > line:
                    _check_quotes(where, last, fields, head)
                if first:
                    _check_index(where, fields, head)
                first = False
                yield _row(line, head, fields)
            line = above + reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {line}: {error}; {TWICE}") from None


def _head(path: Path, file: io.StringIO) -> tuple[int, _Head]:
    """Read `file` up to the line with the column names. Return its line number and the columns."""
    number, sep = 0, None
    while line := file.readline():
        number += 1
        if sep is None and (sep := SEP.fullmatch(line.rstrip("\n"))):
            continue
        if line.strip(BLANK):
            break
    where = f"{path}, line {max(number, 1)}"
    for delimiter in [sep[1]] if sep else DELIMITERS:
        names = _names(line, delimiter)
        if {"before", "after"} <= set(names):
            if twice := [name for name, count in Counter(filter(None, names)).items() if count > 1]:
                raise InputError(f"{where} names {twice[0]!r} more than once; {REMEDY}")
            return number, _Head(names, delimiter)
    raise InputError(
        f"{where} must name the columns, including before and after, but is {_short(line.strip())}; {REMEDY}"
    )


def _names(line: str, delimiter: str) -> list[str]:
    """Return a line's fields as column names; empty if the line cannot be parsed with this delimiter."""
    try:
        (fields,) = csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True)
    except (csv.Error, TypeError, ValueError):  # TypeError: no valid delimiter
        return []
    return [_stripped(field).lower() for field in fields]


def _stripped(field: str) -> str:
    """Return a field as a spreadsheet shows it: without white space at its ends, and `a` for `="a"`."""
    text = field.strip(WHITE)
    return text[2:-1].strip(WHITE) if len(text) > 2 and text[:2] == '="' and text[-1] == '"' else text


def _check_quotes(where: str, last: int, fields: list[str], head: _Head) -> None:
    """Raise InputError if one field has several lines that look like rows. `last` is the row's last line."""
    if any(head.delimiter in field.partition("\n")[2] for field in fields):
        raise InputError(
            f"{where}: a quotation mark opens a field that ends in line {last}, and there are rows in "
            f"between; {TWICE}, and a text that has several lines and a {head.called} in one line"
        )


def _check_index(where: str, fields: list[str], head: _Head) -> None:
    """Raise InputError if the first column has the row numbers that a data frame writes (its index)."""
    more = len(fields) == len(head.names) + 1 and fields[0] in ("0", "1")  # R's write.table
    if more or (head.names[0] in ("", "unnamed: 0") and _stripped(fields[0])):
        raise InputError(
            f"{where}: the first column has no name, and holds {_short(fields[0])}, as pandas and R write an "
            "index; leave it out (index=False, row.names=FALSE), or call it pair_id"
        )


def _row(line: int, head: _Head, fields: list[str]) -> Row:
    """Return the row of one line's fields. If a field is wrong, the Row has a fault.

    Empty fields at the end of a line may be left out. Empty fields beyond the columns are ignored.
    """
    values: dict[str, Any] = {}
    for place, field in enumerate(fields):
        if not (value := _stripped(field)):
            continue
        if place >= len(head.names) or not (name := head.names[place]):
            signs = [sign for sign in "\\“”„«»" if sign in "".join(fields)]
            unknown = f" (csv knows no {' '.join(signs)})" if signs else ""
            remedy = f"name it, or put quotation marks round a {head.called}{unknown}"
            return Row(line, {}, f"{_short(value)} is in column {place + 1}, which has no name: {remedy}")
        if field[0] in WHITE and value[0] == '"':
            return Row(line, {}, f"white space before a quotation mark in {name}; remove it")
        if MORE.fullmatch(name):
            values.setdefault("captions", []).append(value)
        else:
            values[name] = value
    if missing := [name for name in ("before", "after") if name not in values]:
        others = [word for sign, word in DELIMITERS.items() if sign in fields[0]] if len(fields) == 1 else []
        why = f": the line has a {others[0]}, and the first line a {head.called}" if others else ""
        return Row(line, values, f"{missing[0]} is missing{why}")
    return Row(line, values)


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}…")


def _json_lines(path: Path) -> Iterator[Row]:
    first = True
    for number, line in enumerate(read_lines(path, REMEDY, LARGEST), 1):
        if not (text := line.strip(WHITE)):
            continue
        if first and OF_SEVERAL.match(text):
            raise InputError(f"{path}, line {number} {NO_LINES}")
        first = False
        yield _object(number, text)


def _object(number: int, line: str) -> Row:
    if len(line) > LONGEST:
        return Row(number, {}, f"{len(line):,} characters; the limit for a line is {LONGEST:,}")
    try:
        value = json_of(line, "it", "write one JSON object a line, and nothing behind it")
    except InputError as error:
        return Row(number, {}, str(error))
    if not isinstance(value, dict):
        return Row(number, {}, f"{type(value).__name__}, not an object")
    return Row(number, {key: each for key, each in value.items() if each is not None})
