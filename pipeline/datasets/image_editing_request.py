"""Read Image Editing Request (Tan et al., 2019): an image, its edited version, and the request for the edit.

Some images are in several entries, and a few images are in several splits. This is not corrected.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipeline.datasets.annotations import Annotation, Captions, ImageName, check_splits, scenes_by_images
from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from pipeline.io.records import read_foreign

SPLIT_FILES = {"train": "train.json", "val": "valid.json", "test": "test.json"}
FILES = tuple(SPLIT_FILES.values())
REMEDY = "data/README.md lists the files of Image Editing Request"


class EditingRequestEntry(Annotation):
    img0: ImageName
    img1: ImageName
    sents: Captions
    uid: Annotated[str, Field(pattern=r"\S")]


def read(root: Path) -> list[Pair]:
    """Return a pair per entry of FILES, in their order; the pair_id is the entry's uid."""
    pairs: dict[str, Pair] = {}
    for split, file in SPLIT_FILES.items():
        for entry in read_foreign(root / file, tuple[EditingRequestEntry, ...], REMEDY):
            uid, before, after = entry.uid, f"images/{entry.img0}", f"images/{entry.img1}"
            if uid in pairs:
                other_file = SPLIT_FILES[pairs[uid].split]
                raise InputError(f"{root / file}: uid {uid} is in {other_file} already; {REMEDY}")
            pairs[uid] = Pair(uid, uid, split, before, after, entry.sents)
        check_splits(root / file, pairs.values(), (split,))
    return scenes_by_images(list(pairs.values()))
