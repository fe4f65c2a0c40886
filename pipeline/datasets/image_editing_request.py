"""Image Editing Request (Tan et al., 2019): a picture, an edited one, and the request that it answers.

Some pictures stand in several entries, a few even in several splits: the files are taken as they are.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipeline.datasets.annotations import Captions, ImageName, Published, check_splits, scenes_by_images
from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from pipeline.io.records import read_foreign

SPLIT_FILES = {"train": "train.json", "val": "valid.json", "test": "test.json"}
FILES = tuple(SPLIT_FILES.values())
OPTIONAL = ()
REMEDY = "data/README.md lists the files of Image Editing Request"


class Entry(Published):
    img0: ImageName
    img1: ImageName
    sents: Captions
    uid: Annotated[str, Field(pattern=r"\S")]


def read(root: Path) -> list[Pair]:
    """One pair an entry, named by its uid, in the files' order. Raises InputError naming file and entry."""
    pairs: dict[str, Pair] = {}
    for split, file in SPLIT_FILES.items():
        for entry in read_foreign(root / file, tuple[Entry, ...], REMEDY):
            if entry.uid in pairs:
                there = SPLIT_FILES[pairs[entry.uid].split]
                raise InputError(f"{root / file}: uid {entry.uid} stands in {there} already; {REMEDY}")
            pairs[entry.uid] = Pair(
                pair_id=entry.uid,
                scene_id=entry.uid,
                split=split,
                before=f"images/{entry.img0}",
                after=f"images/{entry.img1}",
                captions=entry.sents,
            )
        check_splits(root / file, pairs.values(), (split,))
    return scenes_by_images(list(pairs.values()))
