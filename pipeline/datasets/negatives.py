"""The negatives of a dataset's pairs, data/negatives/<dataset>.jsonl: JSON Lines that a person can read."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.inputs import read_lines
from pipeline.outputs import write_json_lines

NEGATIVES = 6  # of a pair
KINDS = ("retrieve", "replace", "confuse")
REMEDY = "run `dvc repro negatives` to make it"


@dataclass(frozen=True)
class Negative:
    """A caption that is wrong of its pair."""

    kind: str  # one of KINDS: how it was made
    caption: str


@dataclass(frozen=True)
class Negatives:
    """Those of one pair, beside its captions."""

    pair_id: str
    split: str
    captions: tuple[str, ...]
    negatives: tuple[Negative, ...]  # NEGATIVES of them


def write_negatives(path: str | Path, pairs: Iterable[Negatives]) -> None:
    """Write one line a pair, as the pairs come; no file where they end in an error."""
    write_json_lines(path, (_record(own) for own in pairs))


def _record(own: Negatives) -> dict[str, Any]:
    return {
        "pair_id": own.pair_id,
        "split": own.split,
        "captions": list(own.captions),
        "negatives": [{"kind": each.kind, "caption": each.caption} for each in own.negatives],
    }


def read_negatives(path: str | Path, how: str = REMEDY) -> dict[str, list[str]]:
    """Pair -> its NEGATIVES wrong captions. Raises InputError naming the line that is not so, and `how`."""
    found: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path, how), 1):
        pair_id, captions = _read(line, f"{path}, line {number}", how)
        if pair_id in found:
            raise InputError(f"{path}, line {number}: {pair_id!r} stands there before; {how} again")
        found[pair_id] = captions
    return found


def _read(line: str, where: str, how: str) -> tuple[str, list[str]]:
    try:
        record = json.loads(line)
        pair_id, captions = record["pair_id"], [each["caption"] for each in record["negatives"]]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{where} is not a pair with its negatives; {how} again") from None
    if not all(isinstance(text, str) for text in (pair_id, *captions)) or len(captions) != NEGATIVES:
        raise InputError(f"{where}: a pair has {NEGATIVES} negatives, each a caption; {how} again")
    return pair_id, captions
