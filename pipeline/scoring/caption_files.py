"""Read captions, references, and scores of captions, from files that any program may have written.

Captions and scores have one of these forms:

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
    for number, reference in enumerate(tree.annotations, 1):
        if reference.image_id not in references:
            raise InputError(
                f"{path}, annotations, entry {number}: image {reference.image_id} is not listed in `images`; "
                "add it there"
            )
        references[str(reference.image_id)].append(reference.caption)
    return references


def read_results(path: Path, remedy: str = CAPTIONS) -> dict[str, str]:
    """Return id -> caption. Raises InputError if the file has no known form, or has an id twice.

    `remedy` is the advice in the message.
    """
    return _by_id(path, (), _text, remedy)


def read_predictions(path: Path, pairs: Sequence[Pair]) -> dict[str, str]:
    """Return pair id -> predicted text.

    Raises InputError if the file has no known form, has an id twice, or lacks a pair.
    """
    return _by_id(path, pairs, _text, CAPTIONS)


def read_scores(path: Path, pairs: Sequence[Pair]) -> dict[str, float]:
    """Return pair id -> score. The values true and false in the file become 1 and 0.

    Raises InputError if the file is malformed, has an id twice, or lacks a pair.
    """
    return _by_id(path, pairs, _score, NUMBERS)


def _by_id(
    path: Path, pairs: Sequence[Pair], read_value: Callable[[Row, str, str], Value], remedy: str
) -> dict[str, Value]:
    """Return id -> value for the entries of a file. `read_value(entry, source, remedy)` reads a value.

    `source` names the entry in messages. `remedy` is the advice at the end of messages. If `pairs` is not
    empty, the ids are pair ids. Raises InputError if the file has no entry, an id twice or an unknown id,
    or if a pair has no entry.
    """
    values: dict[str, Value] = {}
    pair_ids = {pair.pair_id for pair in pairs}
    for number, row in enumerate(_rows(path, remedy), 1):
        source = f"{path}, entry {number}"
        key = _id(row, source, pairs, pair_ids, remedy)
        if key in values:
            raise InputError(f"{source}: {key} has an entry before; keep one of them")
        values[key] = read_value(row, source, remedy)
    if not values:
        raise InputError(f"{path} has no entry; {remedy}")
    if problems := [f"{pair.pair_id}: has no entry" for pair in pairs if pair.pair_id not in values]:
        raise listed(problems, f"{path} lacks pairs", "add an entry for each pair of the split")
    return {pair.pair_id: values[pair.pair_id] for pair in pairs} if pairs else values


def _rows(path: Path, remedy: str) -> list[Row]:
    text = read_text(path, remedy)
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        return _table(path, text, remedy)
    lines = [line for line in text.splitlines() if line.strip()]
    if start == "{" and len(lines) > 1 and _is_json(lines[0]):
        rows = [json_of(line, f"{path}, line {n}", remedy) for n, line in enumerate(lines, 1)]
    else:
        tree = json_of(text, path, remedy)
        rows = _entries(tree) if isinstance(tree, dict) else tree
    if not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path} holds entries that are no objects; {remedy}")
    return rows


def _entries(tree: dict[str, Any]) -> list[Any]:
    """Return the entries of a file whose content is one JSON object, `tree`.

    `tree` can have three forms: a log of lmms-eval, which has a list of entries; a single entry; or a
    mapping from id to value, in which each id becomes an entry.
    """
    if isinstance(tree.get("logs"), list):
        return list(tree["logs"])
    if tree.keys() & {*IDS, "doc_id"}:
        return [tree]
    return [{"id": key, "caption": value, "score": value} for key, value in tree.items()]


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


def _id(row: Row, source: str, pairs: Sequence[Pair], pair_ids: set[str], remedy: str) -> str:
    """Return the id of the pair to which `row`, an entry of a file of captions or scores, belongs.

    The result is the first id in `row` that is in `pair_ids`, or just the first id if `pairs` is
    empty. If `row` has no such id, its field doc_id or index is a position in `pairs`, from 0.
    Raises InputError if no pair is found. The message names the entry by `source`. If the entry has
    neither an id nor a position, the message ends with `remedy`, which says what the user can do.
    """
    document = row.get("doc")
    objects: list[Row] = [document, row] if isinstance(document, dict) else [row]
    ids = [str(keys[name]) for keys in objects for name in IDS if keys.get(name) not in (None, "")]
    if usable := [key for key in ids if key in pair_ids or not pairs]:
        return usable[0]
    position = str(row.get("doc_id", row.get("index", "")))
    if position.isdecimal() and len(position) < 10 and int(position) < len(pairs):
        return pairs[int(position)].pair_id
    if unknown := [*ids, position][0] if pairs else "":
        raise InputError(f"{source}: {unknown[:80]!r} is no pair of this split; use the ids of the pairs")
    raise InputError(f"{source} has no id ({', '.join(IDS)} or doc_id); {remedy}")


def _text(row: Row, source: str, remedy: str) -> str:
    for name in LMMS:
        if name in row:
            return _answer(row[name], source, remedy)
    for name in TEXTS:
        if isinstance(row.get(name), str):
            return str(row[name])
    if wrong := next((name for name in TEXTS if row.get(name) is not None), None):
        raise InputError(f"{source}: {wrong} is {row[wrong]!r:.40}, not a text; {remedy}")
    # commands.caption explains why a pair has no caption
    reason = row.get("error") or row.get("reason") or ", ".join(TEXTS)
    raise InputError(f"{source} has no text ({reason}); {remedy}")


def _answer(value: Any, source: str, remedy: str) -> str:
    """Return the first answer in `value`, nested lists that lmms-eval writes.

    Raises InputError if there is no answer. The message begins with `source`, the place of the
    entry in its file, and ends with `remedy`, which says what the user can do.
    """
    for _ in range(4):
        if isinstance(value, list) and value:
            value = value[0]
    if not isinstance(value, str):
        raise InputError(f"{source} has no answer in {' or '.join(LMMS)}; {remedy}")
    return value


def _score(row: Row, source: str, remedy: str) -> float:
    name = next((name for name in SCORES if row.get(name) not in (None, "")), None)
    if name is None:
        raise InputError(f"{source} has no score ({', '.join(SCORES)}); {remedy}")
    word = str(row[name]).strip().lower()
    if word in (*TRUE, *FALSE):
        return float(word in TRUE)
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{source}: {name} is {word[:40]!r}, which is no number; {remedy}")
    return number
