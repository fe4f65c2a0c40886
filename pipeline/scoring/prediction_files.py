"""Read the files of other programs: id -> predicted caption, or id -> score of a caption.

| form | keys of an entry |
|---|---|
| COCO results, or what commands.caption wrote | image_id and caption |
| JSON lines, a JSON list, CSV, TSV | one of IDS, and one of TEXTS or SCORES |
| log of lmms-eval (samples_*.jsonl, or JSON with `logs`) | doc_id, doc, filtered_resps or resps |
| table of VLMEvalKit (PRED_FORMAT=tsv or json) | index or the dataset's own id, prediction |
"""

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError, listed
from pipeline.io.inputs import json_of, read_text
from pipeline.scoring.coco_files import MOST

IDS = ("pair_id", "image_id", "id", "question_id", "index")
TEXTS = ("caption", "prediction", "answer", "response", "output", "text")
SCORES = ("score", "verdict", "value", "rating", "correct")
TRUE_WORDS = {
    "true": 1.0,
    "yes": 1.0,
    "correct": 1.0,
    "false": 0.0,
    "no": 0.0,
    "wrong": 0.0,
    "incorrect": 0.0,
}
LMMS = ("filtered_resps", "resps")
REMEDY = (
    "it should hold COCO results, JSON lines or a CSV with an id and a caption or prediction, or a log of "
    "lmms-eval or VLMEvalKit (tsv, json)"
)
NUMBERS = "it should hold JSON lines or a CSV with an id and a score (a number, or true and false)"
Row = Mapping[str, Any]
Value = TypeVar("Value", str, float)


def read_predictions(path: Path, pairs: Sequence[Pair]) -> dict[str, str]:
    """Return pair id -> predicted text of every pair.

    Raises InputError if the file is missing or in no known form, lacks a pair, or has a pair twice.
    """
    return _by_pair(path, pairs, _text, REMEDY)


def read_scores(path: Path, pairs: Sequence[Pair]) -> dict[str, float]:
    """Return pair id -> score of every pair. A verdict in words becomes 1 or 0.

    Raises InputError in the same cases as read_predictions.
    """
    return _by_pair(path, pairs, _score, NUMBERS)


def _by_pair(
    path: Path, pairs: Sequence[Pair], value: Callable[[Row, str], Value], remedy: str
) -> dict[str, Value]:
    rows = _rows(path, read_text(path, remedy), remedy)
    if not rows:
        raise InputError(f"{path} has no entry; {remedy}")
    found: dict[str, Value] = {}
    known = {pair.pair_id for pair in pairs}
    for number, row in enumerate(rows, 1):
        where = f"{path}, entry {number}"
        key = _id(row, where, pairs, known, remedy)
        if key in found:
            raise InputError(f"{where}: {key} has an entry before; keep one of them")
        found[key] = value(row, where)
    if lacking := [f"{pair.pair_id}: has no entry" for pair in pairs if pair.pair_id not in found]:
        raise listed(lacking, f"{path} lacks pairs", "add an entry for each pair of the split")
    return {pair.pair_id: found[pair.pair_id] for pair in pairs}


def _rows(path: Path, text: str, remedy: str) -> list[Row]:
    """Return the entries of a file of any form."""
    if sum(map(text.count, ",{[\t")) > MOST:
        raise InputError(f"{path} holds more than {MOST:,} values; split it into several files; {remedy}")
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        return _table(path, text, remedy)
    lines = [line for line in text.splitlines() if line.strip()]
    if start == "{" and _whole(lines[0]):
        found: Any = [json_of(line, f"{path}, line {n}", remedy) for n, line in enumerate(lines, 1)]
        found = _opened(found[0]) if len(found) == 1 else found
    else:
        found = json_of(text, path, remedy)
        found = _opened(found) if isinstance(found, dict) else found
    if not all(isinstance(row, dict) for row in found):
        raise InputError(f"{path} holds entries that are no objects; {remedy}")
    return list(found)


def _opened(row: dict[str, Any]) -> list[Any]:
    """Return the entries in a JSON object: a log of lmms-eval, {id: value, …}, or a single entry."""
    if isinstance(row.get("logs"), list):
        return list(row["logs"])
    if row.keys() & {*IDS, "doc_id"}:
        return [row]
    return [{"id": key, "caption": own, "score": own} for key, own in row.items()]


def _whole(line: str) -> bool:
    """Return True if a line is JSON by itself, as in JSON lines."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _table(path: Path, text: str, remedy: str) -> list[Row]:
    """Return the rows of a CSV or TSV with a header."""
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise InputError(f"{path} is not readable as a table ({error}); {remedy}") from None
    for number, row in enumerate(rows, 1):
        if None in row or None in row.values():
            raise InputError(f"{path}, entry {number} has another number of fields than the header; {remedy}")
    return list(rows)


def _id(row: Row, where: str, pairs: Sequence[Pair], known: set[str], remedy: str) -> str:
    """Return the pair id of an entry. A number that is not a pair id is a position in the split, from 0."""
    document = row.get("doc")
    own = [row, *([document] if isinstance(document, dict) else [])]
    named = [str(each[name]) for each in reversed(own) for name in IDS if each.get(name) not in (None, "")]
    for key in named:
        if key in known:
            return key
    place = str(row.get("doc_id", row.get("index", "")))
    if place.isdecimal() and len(place) < 10 and int(place) < len(pairs):
        return pairs[int(place)].pair_id
    if named:
        raise InputError(f"{where}: {named[0][:80]!r} is no pair of this split; use the ids of the pairs")
    raise InputError(f"{where} has no id ({', '.join(IDS)} or doc_id); {remedy}")


def _text(row: Row, where: str) -> str:
    for name in LMMS:
        if name in row:
            return _answer(row[name], where)
    for name in TEXTS:
        if isinstance(row.get(name), str):
            return str(row[name])
    raise InputError(f"{where} has no text ({', '.join(TEXTS)}); {REMEDY}")


def _answer(value: Any, where: str) -> str:
    """Return the first answer in the nested lists that lmms-eval writes."""
    for _ in range(4):
        if isinstance(value, list) and value:
            value = value[0]
    if not isinstance(value, str):
        raise InputError(f"{where} has no answer in {' or '.join(LMMS)}; {REMEDY}")
    return value


def _score(row: Row, where: str) -> float:
    name = next((name for name in SCORES if row.get(name) not in (None, "")), None)
    if name is None:
        raise InputError(f"{where} has no score ({', '.join(SCORES)}); {NUMBERS}")
    word = str(row[name]).strip().lower()
    try:
        number = TRUE_WORDS[word] if word in TRUE_WORDS else float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{where}: {name} is {word[:40]!r}, which is no number; {NUMBERS}")
    return number
