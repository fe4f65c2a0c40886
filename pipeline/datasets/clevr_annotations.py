"""Annotation files keyed by the scene's number, which CLEVR-Change and CLEVR-DC share."""

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
"""The file's names of the types -> the schema's."""


class _Splits(Published):
    train: Numbers
    val: Numbers
    test: Numbers


def read_splits(path: Path, remedy: str) -> dict[str, list[int]]:
    """Split -> scene numbers, sorted. Raises InputError where one is empty or a scene stands in two."""
    splits = read_foreign(path, _Splits, remedy)
    where: dict[int, str] = {}
    problems = []
    for name, numbers in splits:
        for number in numbers:
            if number in where:
                problems.append(f"scene {number} stands in {where[number]!r} and again in {name!r}")
            where[number] = name
    if problems:
        raise listed(problems, f"{path}: splits overlap", "leave each scene in one split, once")
    return {name: sorted(numbers) for name, numbers in splits}


def read_captions(path: Path, remedy: str, pattern: str, example: str) -> tuple[Sentences, dict[int, str]]:
    """Scene number -> sentences, and -> the key that names it, from {key: [sentence, ...]}.

    A key matches `pattern` whole, its first group the number; an error shows `example`.
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
    """The number in a name, of nine digits at most; None where the name is of another form."""
    found = re.fullmatch(pattern, name, re.ASCII)
    return int(found[1]) if found and len(found[1]) <= 9 else None


def read_types(path: Path, remedy: str, pattern: str, more: Iterable[str] = ()) -> dict[int, str]:
    """Scene number -> change type, from {the file's name of a type: [name like 000000.png, ...]}.

    The file has all of TYPES; it may have `more` of the schema's own, and no other.
    """
    table = read_foreign(path, dict[str, tuple[str, ...]], remedy)
    if not set(TYPES) <= set(table) <= {*TYPES, *more}:
        raise InputError(f"{path} must have the keys {', '.join(TYPES)}; {remedy}")
    found: dict[int, str] = {}
    for kind, names in table.items():
        for name in names:
            number = _scene_number(name, pattern)
            if number is None:
                said = f"{kind!r} holds {shown(name)}, which is not a name like 000000.png"
                raise InputError(f"{path}: {said}; {remedy}")
            if number in found:
                raise InputError(f"{path}: {name} is listed twice; leave it under one type")
            found[number] = TYPES.get(kind, kind)
    return found


def check_agreement(
    root: Path, file: str, splits: dict[str, list[int]], tables: Mapping[str, Iterable[int]]
) -> None:
    """Every scene of the splits (in `file`) stands in every table (file -> scene number -> …), no other."""
    named = {number for name in SPLITS for number in splits[name]}
    problems = [
        f"{file} names scene {number}, unknown to {other}"
        for other, table in tables.items()
        for number in sorted(named - set(table))
    ]
    problems += [
        f"{other} has scene {number}, which is in no split"
        for other, table in tables.items()
        for number in sorted(set(table) - named)
    ]
    if problems:
        raise listed(problems, str(root), "mend the files so that they agree (data/README.md lists them)")
