"""Read captions, references, and scores of captions, from files that any program may have written.

| form | keys of an entry |
|---|---|
| COCO results, JSON lines, a JSON list, CSV, TSV | one of IDS, and one of TEXTS or SCORES |
| log of lmms-eval (samples_*.jsonl, or JSON with `logs`) | doc_id, doc, filtered_resps or resps |
| table of VLMEvalKit (PRED_FORMAT=tsv or json) | index or the dataset's own id, prediction |

IDS, TEXTS and SCORES are the constants below: tuples of accepted keys.
"""

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, FailFast, StrictInt, StrictStr

from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError, listed
from pipeline.io.inputs import json_of, read_text
from pipeline.io.records import checked

IDS = ("pair_id", "image_id", "id", "question_id", "index")
TEXTS = ("caption", "prediction", "answer", "response", "output", "text")
SCORES = ("score", "verdict", "value", "rating", "correct")
TRUE, FALSE = ("true", "yes", "correct"), ("false", "no", "wrong", "incorrect")
LMMS = ("filtered_resps", "resps")
CAPTIONS = (
    "it should hold COCO results, JSON lines or a CSV with an id and a caption or prediction, or a log of "
    "lmms-eval or VLMEvalKit (tsv, json)"
)
NUMBERS = "it should hold JSON lines or a CSV with an id and a score (a number, or true and false)"
REFERENCES = (
    'it should hold {"images": [{"id": …}], "annotations": [{"image_id": …, "caption": "…"}]} '
    'or {"id": ["sentence", …], …}'
)
Row = Mapping[str, Any]
Value = TypeVar("Value", str, float)
Id = Annotated[StrictInt | StrictStr, AfterValidator(str)]


class Image(BaseModel):
    """An entry of COCO's `images`; other keys are ignored."""

    id: Id


class Reference(BaseModel):
    """An entry of COCO's `annotations`: a reference sentence of an image."""

    image_id: Id
    caption: StrictStr


class Coco(BaseModel):
    """References in COCO's format. Validation stops at the first wrong entry."""

    images: Annotated[list[Image], FailFast()]
    annotations: Annotated[list[Reference], FailFast()]


def read_references(path: Path) -> dict[str, list[str]]:
    """Return id -> reference sentences, unchanged. An image without references has an empty list.

    The file has COCO's format, or is a JSON object of id -> list of sentences. Raises InputError if the file
    is missing, empty, too large or in another format.
    """
    tree = json_of(read_text(path, REFERENCES), path, REFERENCES)
    if isinstance(tree, dict) and "annotations" in tree:
        references = _of_coco(checked(Coco, tree, str(path), REFERENCES), path)
    else:
        references = checked(dict[str, list[StrictStr]], tree, str(path), REFERENCES)
    if not references:
        raise InputError(f"{path} holds no references; {REFERENCES}")
    return references


def _of_coco(tree: Coco, path: Path) -> dict[str, list[str]]:
    for name, count in Counter(image.id for image in tree.images).most_common(1):
        if count > 1:
            raise InputError(f"{path} lists the image {name} {count} times; keep one")
    references: dict[str, list[str]] = {str(image.id): [] for image in tree.images}
    for number, each in enumerate(tree.annotations, 1):
        if each.image_id not in references:
            raise InputError(
                f"{path}, annotations, entry {number}: image {each.image_id} is not listed in `images`; "
                "add it there"
            )
        references[str(each.image_id)].append(each.caption)
    return references


def read_results(path: Path, remedy: str = CAPTIONS) -> dict[str, str]:
    """Return id -> caption. Raises InputError if the file is in no known form, or has an id twice."""
    return _by_id(path, (), _text, remedy)


def read_predictions(path: Path, pairs: Sequence[Pair]) -> dict[str, str]:
    """Return pair id -> predicted text. Raises InputError as read_results does, or if a pair has no entry."""
    return _of_pairs(path, pairs, _by_id(path, pairs, _text, CAPTIONS))


def read_scores(path: Path, pairs: Sequence[Pair]) -> dict[str, float]:
    """Return pair id -> score; true is 1 and false 0. Raises InputError as read_predictions does."""
    return _of_pairs(path, pairs, _by_id(path, pairs, _score, NUMBERS))


def _of_pairs(path: Path, pairs: Sequence[Pair], found: dict[str, Value]) -> dict[str, Value]:
    if lacking := [f"{pair.pair_id}: has no entry" for pair in pairs if pair.pair_id not in found]:
        raise listed(lacking, f"{path} lacks pairs", "add an entry for each pair of the split")
    return {pair.pair_id: found[pair.pair_id] for pair in pairs}


def _by_id(
    path: Path, pairs: Sequence[Pair], value: Callable[[Row, str, str], Value], remedy: str
) -> dict[str, Value]:
    found: dict[str, Value] = {}
    known = {pair.pair_id for pair in pairs}
    for number, row in enumerate(_rows(path, remedy), 1):
        where = f"{path}, entry {number}"
        key = _id(row, where, pairs, known, remedy)
        if key in found:
            raise InputError(f"{where}: {key} has an entry before; keep one of them")
        found[key] = value(row, where, remedy)
    if not found:
        raise InputError(f"{path} has no entry; {remedy}")
    return found


def _rows(path: Path, remedy: str) -> list[Row]:
    text = read_text(path, remedy)
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        return _table(path, text, remedy)
    lines = [line for line in text.splitlines() if line.strip()]
    if start == "{" and _is_json(lines[0]):
        found: Any = [json_of(line, f"{path}, line {n}", remedy) for n, line in enumerate(lines, 1)]
        found = _opened(found[0]) if len(found) == 1 else found
    else:
        found = json_of(text, path, remedy)
        found = _opened(found) if isinstance(found, dict) else found
    if not all(isinstance(row, dict) for row in found):
        raise InputError(f"{path} holds entries that are no objects; {remedy}")
    return list(found)


def _opened(row: dict[str, Any]) -> list[Any]:
    """Return the entries of a JSON object: a log of lmms-eval, a mapping from id to value, or one entry."""
    if isinstance(row.get("logs"), list):
        return list(row["logs"])
    if row.keys() & {*IDS, "doc_id"}:
        return [row]
    return [{"id": key, "caption": own, "score": own} for key, own in row.items()]


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _table(path: Path, text: str, remedy: str) -> list[Row]:
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
    """Return the id of the entry `row`: one that is in `known`, or any id if `pairs` is empty.

    An entry without such an id may have a position in `pairs`, from 0, as its doc_id or index. Raises
    InputError, which begins with `where`, if the entry has neither.
    """
    document = row.get("doc")
    own = [row, *([document] if isinstance(document, dict) else [])]
    named = [str(each[name]) for each in reversed(own) for name in IDS if each.get(name) not in (None, "")]
    if found := [key for key in named if key in known or not pairs]:
        return found[0]
    place = str(row.get("doc_id", row.get("index", "")))
    if place.isdecimal() and len(place) < 10 and int(place) < len(pairs):
        return pairs[int(place)].pair_id
    if named:
        raise InputError(f"{where}: {named[0][:80]!r} is no pair of this split; use the ids of the pairs")
    raise InputError(f"{where} has no id ({', '.join(IDS)} or doc_id); {remedy}")


def _text(row: Row, where: str, remedy: str) -> str:
    for name in LMMS:
        if name in row:
            return _answer(row[name], where, remedy)
    for name in TEXTS:
        if isinstance(row.get(name), str):
            return str(row[name])
    # commands.caption explains why a pair has no caption
    said = row.get("error") or row.get("reason") or ", ".join(TEXTS)
    raise InputError(f"{where} has no text ({said}); {remedy}")


def _answer(value: Any, where: str, remedy: str) -> str:
    """Return the first answer in the nested lists that lmms-eval writes."""
    for _ in range(4):
        if isinstance(value, list) and value:
            value = value[0]
    if not isinstance(value, str):
        raise InputError(f"{where} has no answer in {' or '.join(LMMS)}; {remedy}")
    return value


def _score(row: Row, where: str, remedy: str) -> float:
    name = next((name for name in SCORES if row.get(name) not in (None, "")), None)
    if name is None:
        raise InputError(f"{where} has no score ({', '.join(SCORES)}); {remedy}")
    word = str(row[name]).strip().lower()
    if word in (*TRUE, *FALSE):
        return float(word in TRUE)
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{where}: {name} is {word[:40]!r}, which is no number; {remedy}")
    return number
