"""What the readers share: kinds of values in annotation files, and scenes of datasets that name none."""

import reprlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pipeline.datasets.schema import SPLITS, Pair
from pipeline.io.errors import InputError


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
    """Return the name in one spelling: `./a//b.png` is `a/b.png`."""
    if fault := image_fault(name):
        raise ValueError(fault)
    return str(PurePosixPath(name))


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
    """Return the pairs, in order: those of one split that share an image, directly or not, are a scene.

    scene_id is the id of the scene's first pair.
    """
    shared = [((pair.split, pair.before), (pair.split, pair.after)) for pair in pairs]
    firsts = connected(shared)
    return [replace(pair, scene_id=pairs[first].pair_id) for pair, first in zip(pairs, firsts, strict=True)]


def connected(edges: Iterable[Sequence[Hashable]]) -> list[int]:
    """Return for each group the place of the first group that it shares a thing with, directly or not."""
    numbers: dict[Hashable, int] = {}
    groups = [[numbers.setdefault(thing, len(numbers)) for thing in group] for group in edges]
    ends = np.array([(group[0], other) for group in groups for other in group], dtype=int).reshape(-1, 2).T
    shared = coo_array((np.ones(ends.shape[1]), tuple(ends)), shape=(len(numbers), len(numbers)))
    _, part = connected_components(shared, directed=False)
    first: dict[int, int] = {}
    return [first.setdefault(int(part[group[0]]), place) for place, group in enumerate(groups)]
