"""Read the annotation files of CLEVR-Change and CLEVR-DC, in which the scene number is the key."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipeline.datasets.annotations import Captions, Published, shown
from pipeline.datasets.schema import SPLITS
from pipeline.io.errors import InputError, listed
from pipeline.io.records import read_foreign

Numbers = Annotated[tuple[Annotated[int, Field(ge=0, lt=10**9)], ...], Field(min_length=1)]
Sentences = dict[int, tuple[str, ...]]
TYPES = {"color": "color", "material": "texture", "add": "add", "drop": "drop", "move": "move"}
"""Change types: name in the annotation files -> name in pipeline/datasets/schema.py."""


class _Splits(Published):
    train: Numbers
    val: Numbers
    test: Numbers


def read_splits(path: Path, remedy: str) -> dict[str, list[int]]:
    """Read a file of splits. Return a dictionary: split -> sorted scene numbers.

    Raises InputError for an empty split, or for a scene that is listed twice.
    """
    splits = read_foreign(path, _Splits, remedy)
    where: dict[int, str] = {}
    problems = []
    for name, numbers in splits:
        for number in numbers:
            if number in where:
                problems.append(f"scene {number} is in {where[number]!r} and again in {name!r}")
            where[number] = name
    if problems:
        raise listed(problems, f"{path}: splits overlap", "leave each scene in one split, once")
    return {name: sorted(numbers) for name, numbers in splits}


def read_captions(path: Path, remedy: str, pattern: str, example: str) -> tuple[Sentences, dict[int, str]]:
    """Read a file of the form {key: [sentence, ...]}.

    Return two dictionaries: scene number -> sentences, and scene number -> key. Each key must match
    `pattern`, whose first group is the scene number. Error messages show `example`, a valid key.
    """
    table = read_foreign(path, dict[str, Captions], remedy)
    problems = []
    keys: dict[int, str] = {}
    for key in table:
        number = _scene_number(key, pattern)
        if number is None:
            problems.append(f"{shown(key)} is not named like {example}")
        elif keys.setdefault(number, key) != key:
            problems.append(f"{key} and {keys[number]} are the same scene")
    if problems:
        raise listed(problems, str(path), "give each image its list of sentences")
    return {number: table[key] for number, key in keys.items()}, keys


def _scene_number(name: str, pattern: str) -> int | None:
    """Return the number in a name. Return None if the name does not match or has more than nine digits."""
    found = re.fullmatch(pattern, name, re.ASCII)
    return int(found[1]) if found and len(found[1]) <= 9 else None


def read_types(path: Path, remedy: str, pattern: str, more: Iterable[str] = ()) -> dict[int, str]:
    """Read a file of the form {change type: [name like 000000.png, ...]}.

    Return a dictionary: scene number -> change type in the words of schema.py. The file must have all keys of
    TYPES, and may have the keys in `more`.
    """
    table = read_foreign(path, dict[str, tuple[str, ...]], remedy)
    if not set(TYPES) <= set(table) <= {*TYPES, *more}:
        raise InputError(f"{path} must have the keys {', '.join(TYPES)}; {remedy}")
    found: dict[int, str] = {}
    for kind, names in table.items():
        for name in names:
            number = _scene_number(name, pattern)
            if number is None:
                raise InputError(f"{path}: {kind!r} has {shown(name)}, not a name like 000000.png; {remedy}")
            if number in found:
                raise InputError(f"{path}: {name} is listed twice; leave it under one type")
            found[number] = TYPES.get(kind, kind)
    return found


def check_agreement(
    root: Path, file: str, splits: dict[str, list[int]], tables: Mapping[str, Iterable[int]]
) -> None:
    """Raise InputError unless the splits and every other file have the same scenes.

    `file` is the name of the file of the splits. `tables` has the other files: name -> scene numbers.
    """
    named = {number for name in SPLITS for number in splits[name]}
    scenes = {other: set(table) for other, table in tables.items()}
    problems = [
        f"{file} names scene {number}, unknown to {other}"
        for other, known in scenes.items()
        for number in sorted(named - known)
    ] + [
        f"{other} has scene {number}, which is in no split"
        for other, known in scenes.items()
        for number in sorted(known - named)
    ]
    if problems:
        raise listed(problems, str(root), "make the files agree (data/README.md lists them)")
