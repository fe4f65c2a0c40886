"""Read the annotation files of CLEVR-Change and CLEVR-DC, which identify scenes by their numbers."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipeline.datasets.annotations import Annotation
from pipeline.datasets.schema import SPLITS
from pipeline.io.errors import InputError, listed
from pipeline.io.records import read_foreign

Numbers = Annotated[tuple[Annotated[int, Field(ge=0, lt=10**9)], ...], Field(min_length=1)]
Sentences = dict[int, tuple[str, ...]]
TYPES = {"color": "color", "material": "texture", "add": "add", "drop": "drop", "move": "move"}
"""Change types: name in the annotation files -> name in pipeline/datasets/schema.py."""


class _Splits(Annotation):
    train: Numbers
    val: Numbers
    test: Numbers


def read_splits(path: Path, remedy: str) -> dict[str, list[int]]:
    """Return split -> sorted scene numbers, none of which is listed twice, from a JSON file."""
    splits = read_foreign(path, _Splits, remedy)
    split_of: dict[int, str] = {}
    problems = []
    for name, numbers in splits:
        for number in numbers:
            if number in split_of:
                problems.append(f"scene {number} is in {split_of[number]!r} and again in {name!r}")
            split_of[number] = name
    if problems:
        raise listed(problems, f"{path}: splits overlap", "leave each scene in one split, once")
    return {name: sorted(numbers) for name, numbers in splits}


def scene_number(name: str) -> int:
    return int(re.sub("[^0-9]", "", name))


def read_captions(
    path: Path, remedy: str, kind: type[dict[str, tuple[str, ...]]]
) -> tuple[Sentences, dict[int, str]]:
    """Read {image: [sentence, ...]}; return scene number -> sentences, and -> name of the image.

    `kind` is a dictionary type whose keys are the valid names of images.
    """
    table = read_foreign(path, kind, remedy)
    names: dict[int, str] = {}
    for name in table:
        if (first_name := names.setdefault(scene_number(name), name)) != name:
            raise InputError(f"{path}: {name} and {first_name} are the same scene; leave one of them")
    return {number: table[name] for number, name in names.items()}, names


def read_types(
    path: Path, remedy: str, kind: type[dict[str, tuple[str, ...]]], more: Iterable[str] = ()
) -> dict[int, str]:
    """Return scene number -> change type of schema.py, from a JSON file {change type: [image, ...]}.

    The file must have all keys of TYPES, and may have `more`. `kind` is the type that checks the names of
    images.
    """
    table = read_foreign(path, kind, remedy)
    if not set(TYPES) <= set(table) <= {*TYPES, *more}:
        raise InputError(f"{path} must have the keys {', '.join(TYPES)}; {remedy}")
    types: dict[int, str] = {}
    for change, names in table.items():
        for name in names:
            if types.setdefault(scene_number(name), TYPES.get(change, change)) != TYPES.get(change, change):
                raise InputError(f"{path}: {name} is listed twice; leave it under one type")
    return types


def check_agreement(
    root: Path, file: str, splits: dict[str, list[int]], tables: Mapping[str, Iterable[int]]
) -> None:
    """Raise InputError unless all annotation files of a dataset have the same scenes.

    `splits` is the content of `file`; `tables` maps the names of other files to the numbers of their scenes.
    """
    split_scenes = {number for name in SPLITS for number in splits[name]}
    problems = []
    for table_file, table in tables.items():
        absent, unsplit = sorted(split_scenes.difference(table)), sorted(set(table) - split_scenes)
        problems += [f"{file} names scene {number}, unknown to {table_file}" for number in absent]
        problems += [f"{table_file} has scene {number}, which is in no split" for number in unsplit]
    if problems:
        raise listed(problems, str(root), "make the files agree (data/README.md lists them)")
