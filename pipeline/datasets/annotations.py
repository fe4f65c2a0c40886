"""Types and checks that several readers use, and scene ids for datasets that do not name scenes."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pipeline.datasets.schema import SPLITS, Pair
from pipeline.io.errors import InputError


class Annotation(BaseModel):
    """Base class for the JSON objects of an annotation file. Keys that are not fields are ignored."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


def normalised(name: str) -> str:
    """Return an image's name in its shortest spelling; ValueError if it is not in the dataset's folder."""
    path = PurePosixPath(name.replace("\\", "/"))
    if "\0" in name or path.is_absolute() or ".." in path.parts or not path.name:
        raise ValueError("must be a file in the dataset's folder")
    return str(PurePosixPath(name))


def not_blank(sentences: Iterable[str]) -> tuple[str, ...]:
    return tuple(sentence for sentence in sentences if sentence.strip())


ImageName = Annotated[str, AfterValidator(normalised)]
"""Path of an image, relative to the dataset's folder."""
Captions = Annotated[tuple[str, ...], AfterValidator(not_blank), Field(min_length=1)]
"""The captions of a pair without blank sentences. At least one sentence is not blank."""


def check_splits(source: Path, pairs: Iterable[Pair], splits: Iterable[str] = SPLITS) -> None:
    """Raise InputError if one of `splits` has no pair. The message names `source`, the file or folder."""
    splits_with_pairs = {pair.split for pair in pairs}
    if missing := [split for split in splits if split not in splits_with_pairs]:
        raise InputError(f"{source} has no pair in {missing[0]!r}; every split needs pairs")


def scenes_by_images(pairs: list[Pair]) -> list[Pair]:
    """Name scenes: pairs of a split that share an image, directly or through other pairs, are one scene."""
    image_groups = [((pair.split, pair.before), (pair.split, pair.after)) for pair in pairs]
    return [
        replace(pair, scene_id=pairs[first_index].pair_id)
        for pair, first_index in zip(pairs, connected(image_groups), strict=True)
    ]


def connected(groups: Iterable[Sequence[Hashable]]) -> list[int]:
    """Return for each group the first group (its index) that it is connected to by shared members."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    numbers: dict[Hashable, int] = {}
    numbered = [[numbers.setdefault(member, len(numbers)) for member in group] for group in groups]
    edges = np.array([(group[0], item) for group in numbered for item in group], dtype=int).reshape(-1, 2).T
    graph = coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(len(numbers), len(numbers)))
    _, component = connected_components(graph, directed=False)
    first_groups: dict[int, int] = {}
    return [first_groups.setdefault(int(component[group[0]]), index) for index, group in enumerate(numbered)]
