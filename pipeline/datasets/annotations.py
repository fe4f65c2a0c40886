"""What the readers share: kinds of values in annotation files, and scenes of datasets that name none."""

import reprlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pipeline.datasets.schema import SPLITS, Pair
from pipeline.errors import InputError


class Published(BaseModel):
    """What is read of an object of an annotation file; other keys may stand beside it."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


def image_fault(name: str) -> str | None:
    """What is wrong with an image's name; None: a file inside the dataset's folder."""
    if not name or "\0" in name:
        return "must be a file's name"
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or not path.name:
        return "must be a file in the dataset's folder"
    return None


def _inside(name: str) -> str:
    if fault := image_fault(name):
        raise ValueError(fault)
    return name


def written(sentences: Iterable[str]) -> tuple[str, ...]:
    """The sentences that say something, as written: some datasets hold empty ones."""
    return tuple(sentence for sentence in sentences if sentence.strip())


def _said(sentences: tuple[str, ...]) -> tuple[str, ...]:
    if not (found := written(sentences)):
        raise ValueError("must say something")
    return found


ImageName = Annotated[str, AfterValidator(_inside)]
"""A file inside the dataset's folder."""
Captions = Annotated[tuple[str, ...], AfterValidator(_said)]
"""Those that say something, at least one."""


def shown(value: Any) -> str:
    """A value of any type and size in a few words, for an error."""
    return reprlib.repr(value)


def check_splits(where: Path, pairs: Iterable[Pair], splits: Iterable[str] = SPLITS) -> None:
    """Raises InputError naming `where` and one of `splits` without pairs."""
    found = {pair.split for pair in pairs}
    if missing := [split for split in splits if split not in found]:
        raise InputError(f"{where} has no pair in {missing[0]!r}; every split needs pairs")


def scenes_by_images(pairs: list[Pair]) -> list[Pair]:
    """The pairs, in order: those of one split that share an image, directly or not, are a scene.

    scene_id is the id of the scene's first pair.
    """
    numbers: dict[tuple[str, str], int] = {}
    before, after = (
        [numbers.setdefault((pair.split, getattr(pair, side)), len(numbers)) for pair in pairs]
        for side in ("before", "after")
    )
    shared = coo_array((np.ones(len(pairs)), (before, after)), shape=(len(numbers), len(numbers)))
    _, scene = connected_components(shared, directed=False)
    first: dict[int, str] = {}
    return [
        replace(pair, scene_id=first.setdefault(int(scene[image]), pair.pair_id))
        for pair, image in zip(pairs, before, strict=True)
    ]
