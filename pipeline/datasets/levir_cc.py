"""Read LEVIR-CC (Liu et al., 2022): pairs of aerial images of the same place, taken years apart.

The files state whether a pair has a change, but not the kind of change.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipeline.datasets.annotations import Annotation, ImageName, check_splits, not_blank
from pipeline.datasets.schema import CHANGE, NO_CHANGE, Pair, Split
from pipeline.io.errors import InputError
from pipeline.io.records import read_foreign

CAPTIONS = "LevirCCcaptions.json"
FILES = (CAPTIONS,)
REMEDY = "data/README.md lists the files of LEVIR-CC"


class _Sentence(Annotation):
    raw: str


class _Image(Annotation):
    filename: ImageName
    split: Split
    changeflag: Annotated[int, Field(ge=0, le=1)]
    sentences: tuple[_Sentence, ...]


class _File(Annotation):
    images: tuple[_Image, ...]


def read(root: Path) -> list[Pair]:
    """Return one pair per entry of the captions file, in the file's order."""
    path = root / CAPTIONS
    pairs: dict[str, Pair] = {}
    for image in read_foreign(path, _File, REMEDY).images:
        name = image.filename
        if name in pairs:
            raise InputError(f"{path}: {name} is there twice; {REMEDY}")
        if not (captions := not_blank(sentence.raw for sentence in image.sentences)):
            raise InputError(f"{path}: {name} has no sentence; {REMEDY}")
        pairs[name] = Pair(
            pair_id=name,
            scene_id=name,
            split=image.split,
            before=f"images/{image.split}/A/{name}",
            after=f"images/{image.split}/B/{name}",
            captions=captions,
            change_type=CHANGE if image.changeflag else NO_CHANGE,
        )
    check_splits(path, pairs.values())
    return list(pairs.values())
