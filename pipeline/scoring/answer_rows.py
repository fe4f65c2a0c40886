"""Read the rows of a file of captions or scores, from any program: JSON, JSON lines, CSV or TSV.

A row is a dictionary. In a table, names of columns are in lower case, and all values are texts.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.datasets.pairs_csv_rows import DELIMITERS, SEP
from pipeline.io.errors import InputError
from pipeline.io.inputs import json_of, read_text

IDS = ("pair_id", "image_id", "id", "question_id", "index")
POSITION = "doc_id"  # a position in the split, from 0
Row = Mapping[str, Any]


def read_rows(path: Path, remedy: str) -> list[Row]:
    """Return the rows of a file. `remedy`, the advice to the user, is the end of messages.

    Raises InputError if the file has no known form, or if a table names a column twice.
    """
    text = read_text(path, remedy)
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        return _table(path, text, remedy)
    # str.splitlines would also split at U+2028 and the like, which JSON allows inside a text
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if start == "{" and len(lines) > 1 and _is_json(lines[0][1]):
        rows = [json_of(line, f"{path}, line {number}", remedy) for number, line in lines]
    else:
        tree = json_of(text, path, remedy)
        rows = _entries(tree) if isinstance(tree, dict) else tree
    if not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path} holds entries that are no objects; {remedy}")
    return rows


def key_of(rows: Sequence[Row], names: Collection[str], path: Path, chosen: str | None = None) -> str | None:
    """Return the key that holds the value in all rows of a file: `chosen`, or the only one of `names`.

    Returns None if the rows have none of `names`. Raises InputError if the rows have several of `names`, or
    if no row has the key `chosen`: a value of another key is never used instead.
    """
    keys = dict.fromkeys(key for row in rows for key in row)
    if chosen is not None:
        key = chosen if chosen in keys else chosen.strip().lower()
        if rows and key not in keys:
            raise InputError(f"{path} has no key {chosen!r}; name one of {', '.join(keys)[:200]}")
        return key
    present = [name for name in names if name in keys]
    if len(present) > 1:
        raise InputError(
            f"{path} has several keys that may hold the value: {', '.join(present)}; name the right one with "
            "--key"
        )
    return present[0] if present else None


def _entries(tree: dict[str, Any]) -> list[Any]:
    """Return the entries of a JSON object: a log of lmms-eval, one entry, or id -> value."""
    if isinstance(tree.get("logs"), list):
        return list(tree["logs"])
    if tree.keys() & {*IDS, POSITION}:
        return [tree]
    return [{"id": key, "caption": value, "score": value} for key, value in tree.items()]


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _table(path: Path, text: str, remedy: str) -> list[Row]:
    first, _, rest = text.partition("\n")
    named = SEP.fullmatch(first.strip())  # Excel's first line, which names the delimiter
    text = rest if named else text
    head = text.partition("\n")[0]
    delimiter = named[1] if named else _delimiter(head)
    names = _names(head, delimiter)
    if repeated := [name for name, count in Counter(filter(None, names)).items() if count > 1]:
        raise InputError(f"{path} names the column {repeated[0]!r} more than once; keep one of them")
    rows: list[Row] = []
    for number, fields in enumerate(_rows_of_fields(path, text, delimiter, remedy), 1):
        surplus = any(field.strip() for field in fields[len(names) :])
        if len(fields) < len(names) or surplus:
            raise InputError(f"{path}, entry {number} has another number of fields than the header; {remedy}")
        rows.append({name: field.strip() for name, field in zip(names, fields, strict=False) if name})
    return rows


def _delimiter(head: str) -> str:
    """Return the delimiter for which the first line of a table names an id; else a tab or a comma."""
    for delimiter in DELIMITERS:
        names = {*_names(head, delimiter)}
        if len(names) > 1 and names & {*IDS, POSITION}:
            return delimiter
    return "\t" if "\t" in head else ","


def _names(head: str, delimiter: str) -> list[str]:
    """Return the names of the columns in the first line of a table; [] if it cannot be parsed."""
    try:
        return [name.strip().lower() for name in next(_fields(head, delimiter), [])]
    except csv.Error:
        return []


def _rows_of_fields(path: Path, text: str, delimiter: str, remedy: str) -> list[list[str]]:
    """Return the rows of a table, as lists of fields, without the header and blank rows.

    Programs write a TSV with or without quotation marks around fields. If the marks cannot be read as marks
    around fields, or if they would join several lines that are complete rows, they belong to the texts.
    """
    try:
        rows = [*_fields(text, delimiter)]
    except csv.Error as error:
        if delimiter != "\t":
            raise InputError(f"{path} is not readable as a table ({error}); {remedy}") from None
        rows = []
    if delimiter == "\t":
        plain = [line.split(delimiter) for line in text.split("\n") if line.strip()]
        if not rows or (len(plain) > len(rows) and len({len(fields) for fields in plain}) == 1):
            rows = plain
    return rows[1:]


def _fields(text: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the fields of each row that is not blank. Raises csv.Error for a stray quotation mark."""
    file = io.StringIO(text, newline="\n")
    for fields in csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True):
        if any(map(str.strip, fields)):
            yield fields
