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
    """Return the content of the file `path`, a JSON object: split -> sorted scene numbers.

    Raises InputError if a split is empty, or if a scene is listed twice. `remedy` is advice to the user
    in the message if the file is missing or has a wrong form.
    """
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
    """Return the scene number in the name of an image."""
    return int(re.sub("[^0-9]", "", name))


def read_captions(
    path: Path, remedy: str, kind: type[dict[str, tuple[str, ...]]]
) -> tuple[Sentences, dict[int, str]]:
    """Read a file {image: [sentence, ...]}.

    Return two dictionaries: scene number -> sentences, and scene number -> name of the image. `kind` is
    a dictionary type whose keys are the valid names of images. An error message ends with `remedy`.
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
    """Read the change types of scenes from a file. Return a dictionary: scene number -> change type.

    The file is a JSON object {change type: [name of an image, ...]}. The result has the change types of
    schema.py: "material" in the file becomes "texture". The file must have all keys of TYPES.

    remedy: advice for error messages
    kind: type of the JSON object for pydantic, which checks the names of images by this type
    more: keys that the file may have in addition to those of TYPES

    Raises InputError for wrong keys or names, or if a scene has two change types.
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

    root: folder of the dataset, for the error message
    file: name of the file that assigns scenes to splits
    splits: content of `file`: split -> numbers of its scenes
    tables: name of another annotation file -> numbers of the scenes in that other file
    """
    split_scenes = {number for name in SPLITS for number in splits[name]}
    problems = []
    for table_file, table in tables.items():
        absent, unsplit = sorted(split_scenes.difference(table)), sorted(set(table) - split_scenes)
        problems += [f"{file} names scene {number}, unknown to {table_file}" for number in absent]
        problems += [f"{table_file} has scene {number}, which is in no split" for number in unsplit]
    if problems:
        raise listed(problems, str(root), "make the files agree (data/README.md lists them)")
