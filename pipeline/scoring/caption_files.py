"""Read captions, and scores of captions, from files that any program may have written.

Captions and scores have one of these forms:

| form | keys of an entry |
|---|---|
| COCO results, JSON lines, a JSON list, CSV, TSV | one of IDS, and one of TEXTS or SCORES |
| log of lmms-eval (samples_*.jsonl, or JSON with `logs`) | doc_id, doc, filtered_resps or resps |
| table of VLMEvalKit (PRED_FORMAT=tsv or json) | index or the dataset's own id, prediction |

IDS, TEXTS (answer_text.py) and SCORES are tuples of accepted keys.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError, listed, printable
from pipeline.scoring import scored_ids
from pipeline.scoring.answer_rows import IDS, POSITION, Row, key_of, read_rows
from pipeline.scoring.answer_text import TEXTS
from pipeline.scoring.scored_ids import KnownIds, Matched

INDEX = "index"
SCORES = ("score", "verdict", "value", "rating", "correct")
TRUE, FALSE = ("true", "yes", "correct"), ("false", "no", "wrong", "incorrect")
LMMS = ("filtered_resps", "resps")
CAPTIONS = (
    "it should hold COCO results, JSON lines or a CSV with an id and a caption or prediction, or a log of "
    "lmms-eval or VLMEvalKit (tsv, json)"
)
NUMBERS = "it should hold JSON lines or a CSV with an id and a score (a number, or true and false)"
Value = TypeVar("Value", str, float)


def read_results(path: Path, remedy: str = CAPTIONS, key: str | None = None) -> dict[str, str]:
    return _by_id(read_rows(path, remedy), path, (), _text, _text_key, key, remedy)


def read_predictions(
    path: Path,
    pairs: Sequence[Pair],
    key: str | None = None,
    known: KnownIds | None = None,
    drop_unknown: bool = False,
) -> dict[str, str]:
    """Return pair id -> predicted text. The file may name the ids `known`; known.left_out are skipped."""
    return _of_pairs(path, pairs, _text, _text_key, key, CAPTIONS, known, drop_unknown)


def read_answers(
    path: Path,
    pairs: Sequence[Pair],
    key: str | None = None,
    known: KnownIds | None = None,
    drop_unknown: bool = False,
) -> dict[str, str]:
    """Return pair id -> answer as `read_predictions`; null or NaN, a failed request, is ""."""
    return _of_pairs(path, pairs, _answer, _text_key, key, CAPTIONS, known, drop_unknown)


def read_scores(path: Path, pairs: Sequence[Pair], key: str | None = None) -> dict[str, float]:
    """Return pair id -> score, 1 for true and 0 for false; `key`: default one of SCORES."""
    return _of_pairs(path, pairs, _score, _score_key, key, NUMBERS)


def _of_pairs(
    path: Path,
    pairs: Sequence[Pair],
    read_value: Callable[[Row, str | None, str, str], Value],
    find_key: Callable[[Sequence[Row], Path, str | None], str | None],
    chosen: str | None,
    remedy: str,
    known: KnownIds | None = None,
    drop_unknown: bool = False,
) -> dict[str, Value]:
    """Return pair id -> value for the entries of a file. Raises InputError if a pair has no entry.

    See `_by_id` for the arguments `read_value` to `remedy`, and `read_predictions` for the last two.
    """
    values = _by_id(read_rows(path, remedy), path, pairs, read_value, find_key, chosen, remedy)
    matched: Matched = scored_ids.match(values, known or scored_ids.of_pairs(pairs, "the pairs"), path)
    if not drop_unknown:
        matched.check(path)
    missing = {pair.pair_id for pair in pairs} - {*matched.ids.values()}
    if problems := [f"{pair.pair_id}: has no entry" for pair in pairs if pair.pair_id in missing]:
        raise listed(problems, f"{path} lacks pairs", "add an entry for each pair of the split")
    for note in matched.notes(path):
        print(printable(note))
    by_pair = {meaning: values[key] for key, meaning in matched.ids.items()}
    return {pair.pair_id: by_pair[pair.pair_id] for pair in pairs}


def _by_id(
    rows: Sequence[Row],
    path: Path,
    pairs: Sequence[Pair],
    read_value: Callable[[Row, str | None, str, str], Value],
    find_key: Callable[[Sequence[Row], Path, str | None], str | None],
    chosen: str | None,
    remedy: str,
) -> dict[str, Value]:
    """Return id -> value for the rows of a file. `read_value(entry, key, source, remedy)` reads a value.

    `find_key` returns the key of the values, which the user may have `chosen`. `source` names the entry in
    messages. `remedy` is the advice at the end of messages. Ids are those of the file; a row that only has a
    position has the id of the pair at this position in `pairs`. Raises InputError if the file has no entry,
    or an id twice.
    """
    values: dict[str, Value] = {}
    key, id_of = find_key(rows, path, chosen), _ids_of(rows, pairs, remedy)
    for number, row in enumerate(rows, 1):
        source = f"{path}, entry {number}"
        name = id_of(row, source)
        if name in values:
            raise InputError(f"{source}: {name} has an entry before; keep one of them")
        values[name] = read_value(row, key, source, remedy)
    if not values:
        raise InputError(f"{path} has no entry; {remedy}")
    return values


def _ids_of(rows: Sequence[Row], pairs: Sequence[Pair], remedy: str) -> Callable[[Row, str], str]:
    """Return the function that returns the id of a row: the first of IDS in its `doc`, or in the row.

    The function never uses another id, or a position, in place of an id that no pair has: it would be the id
    of another pair. Only rows without any other id count the pairs from 0, with `doc_id`, or with `index` if
    the values of `index` are not all pair ids. The message names the row by `source`, and ends with `remedy`
    if the row has neither an id nor a position.
    """
    pair_ids = {pair.pair_id for pair in pairs}
    counts_pairs = bool(pairs) and not all(str(row.get(INDEX)) in pair_ids for row in rows)
    names = [name for name in IDS if not (name == INDEX and counts_pairs)]

    def id_of(row: Row, source: str) -> str:
        document = row.get("doc")
        objects: list[Row] = [document, row] if isinstance(document, dict) else [row]
        ids = (str(keys[name]) for keys in objects for name in names if _given(keys.get(name)))
        if first := next(ids, None):
            return first
        position = str(row.get(POSITION, row.get(INDEX, ""))) if pairs else ""
        if position.isdecimal() and len(position) < 10 and int(position) < len(pairs):
            return pairs[int(position)].pair_id
        if position:
            raise InputError(f"{source}: position {position[:80]!r} is no pair of this split; count from 0")
        raise InputError(f"{source} has no id ({', '.join(IDS)} or {POSITION}); {remedy}")

    return id_of


def _given(value: Any) -> bool:
    return value not in (None, "") and value == value


def _text_key(rows: Sequence[Row], path: Path, chosen: str | None) -> str | None:
    own = next((name for name in LMMS if any(name in row for row in rows)), None)
    return own if own and chosen is None else key_of(rows, TEXTS, path, chosen)


def _score_key(rows: Sequence[Row], path: Path, chosen: str | None) -> str | None:
    return key_of(rows, SCORES, path, chosen)


def _answer(row: Row, key: str | None, source: str, remedy: str) -> str:
    is_missing = key is not None and key in row and not _given(_first_answer(row[key]))
    return "" if is_missing else _text(row, key, source, remedy)


def _text(row: Row, key: str | None, source: str, remedy: str) -> str:
    value = _first_answer(row.get(key)) if key else None
    if isinstance(value, str):
        return value
    if _given(value):
        raise InputError(f"{source}: {key} is {value!r:.40}, not a text; {remedy}")
    # commands.caption explains why a pair has no caption
    reason = row.get("error") or row.get("reason") or key or ", ".join(TEXTS)
    raise InputError(f"{source} has no text ({reason}); {remedy}")


def _first_answer(value: Any) -> Any:
    """Return the first answer in `value`, nested lists that lmms-eval writes; other values unchanged."""
    for _ in range(4):
        if isinstance(value, list) and value:
            value = value[0]
    return value


def _score(row: Row, key: str | None, source: str, remedy: str) -> float:
    if key is None or key not in row:
        raise InputError(f"{source} has no score ({key or ', '.join(SCORES)}); {remedy}")
    word = str(row[key]).strip().lower()
    if word in (*TRUE, *FALSE):
        return float(word in TRUE)
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{source}: {key} is {word[:40]!r}, which is no number; {remedy}")
    return number
