"""Annotation files keyed by the scene's number, which CLEVR-Change and CLEVR-DC share."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.datasets.annotations import captions_fault, read_table, shown, written
from pipeline.datasets.schema import SPLITS
from pipeline.errors import InputError, listed

Captions = dict[int, tuple[str, ...]]


def read_splits(path: Path, remedy: str) -> dict[str, list[int]]:
    """Split -> scene numbers, sorted. Raises InputError where one is empty or a scene stands in two."""
    splits = read_table(path, remedy, "train, val and test to lists of scene numbers")
    if not set(splits) >= set(SPLITS):
        raise InputError(f"{path} must map train, val and test to lists of scene numbers; {remedy}")
    for name in SPLITS:
        if not isinstance(splits[name], list) or not all(_is_number(n) for n in splits[name]):
            raise InputError(f"{path}: {name!r} must be a list of scene numbers; {remedy}")
        if not splits[name]:
            raise InputError(f"{path}: {name!r} is empty; every split needs scenes")
    _check_disjoint(path, splits)
    return {name: sorted(splits[name]) for name in SPLITS}


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9


def _check_disjoint(path: Path, splits: dict[str, list[int]]) -> None:
    where: dict[int, str] = {}
    problems = []
    for name in SPLITS:
        for number in splits[name]:
            if number in where:
                problems.append(f"scene {number} stands in {where[number]!r} and again in {name!r}")
            where[number] = name
    if problems:
        raise listed(problems, f"{path}: splits overlap", "leave each scene in one split, once")


def read_captions(path: Path, remedy: str, pattern: str, example: str) -> tuple[Captions, dict[int, str]]:
    """Scene number -> sentences, and -> the key that names it, from {key: [sentence, ...]}.

    A key matches `pattern` whole, its first group the number; an error shows `example`.
    """
    table = read_table(path, remedy, "image names to lists of sentences")
    problems, captions = [], {}
    keys: dict[int, str] = {}
    for key, value in table.items():
        number = scene_number(key, pattern)
        if number is None:
            problems.append(f"{shown(key)} is not named like {example}")
        elif number in keys:
            problems.append(f"{key} and {keys[number]} are the same scene")
        elif fault := captions_fault(value):
            problems.append(f"{key}: {fault}")
        else:
            captions[number], keys[number] = written(value), key
    if problems:
        raise listed(problems, str(path), "give each image its list of sentences")
    return captions, keys


def scene_number(name: Any, pattern: str) -> int | None:
    """The number in a name, of nine digits at most; None where the name is of another form."""
    found = re.fullmatch(pattern, name, re.ASCII) if isinstance(name, str) else None
    return int(found[1]) if found and len(found[1]) <= 9 else None


def read_types(path: Path, remedy: str, types: dict[str, str], pattern: str) -> dict[int, str]:
    """Scene number -> change type, from {the file's name of a type: [name like 000000.png, ...]}.

    `types`: the file's names of the types -> the schema's; the file has all of them and no other.
    """
    table = read_table(path, remedy, "change types to lists of image names")
    if set(table) != set(types):
        raise InputError(f"{path} must have the keys {', '.join(types)}; {remedy}")
    found: dict[int, str] = {}
    for kind, names in table.items():
        if not isinstance(names, list):
            raise InputError(f"{path}: {kind!r} must be a list of names like 000000.png; {remedy}")
        for name in names:
            number = scene_number(name, pattern)
            if number is None:
                raise InputError(
                    f"{path}: {kind!r} holds {shown(name)}, which is not a name like 000000.png; {remedy}"
                )
            if number in found:
                raise InputError(f"{path}: {name} is listed twice; leave it under one type")
            found[number] = types[kind]
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
