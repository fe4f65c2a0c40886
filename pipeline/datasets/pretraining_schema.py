"""What pre-training reads beside pairs with captions: single images with captions, and pairs of classes.

Neither is a Pair: an image of CUB has no second one, a pair of NABirds has no caption. A file holds records
of one of the two, data/pretraining/<dataset>.jsonl.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pipeline.datasets.schema import Pair
from pipeline.errors import InputError
from pipeline.outputs import read_lines, write_json_lines

REMEDY = "run `dvc repro prepare_pretraining` to make it"


@dataclass(frozen=True)
class CaptionedImage:
    """An image, and what people said of it."""

    image_id: str
    split: str  # train or val
    image: str  # file name relative to the dataset's root
    captions: tuple[str, ...]  # at least one, as written

    @property
    def images(self) -> tuple[str, ...]:
        """The files that it names."""
        return (self.image,)


@dataclass(frozen=True)
class ClassPair:
    """Two images and the class of what each shows, without a caption."""

    pair_id: str
    split: str  # train or val
    before: str  # file name relative to the dataset's root
    after: str
    before_class: int  # from 0 to the number of classes - 1
    after_class: int

    @property
    def same_class(self) -> bool:
        """Whether both show the same class."""
        return self.before_class == self.after_class

    @property
    def images(self) -> tuple[str, ...]:
        """The files that it names."""
        return self.before, self.after


Record = CaptionedImage | ClassPair


def write_records(path: str | Path, records: Iterable[Record]) -> None:
    """Write records as JSON lines, fields in the order of their schema."""
    write_json_lines(path, (asdict(record) for record in records))


def read_captioned_images(path: str | Path) -> list[CaptionedImage]:
    """Read what was written. Raises InputError naming the line that is no captioned image."""
    return [
        CaptionedImage(**(record | {"captions": tuple(record["captions"])}))
        for record in _records(path, CaptionedImage)
    ]


def read_class_pairs(path: str | Path) -> list[ClassPair]:
    """Read what was written. Raises InputError naming the line that is no pair of classes."""
    return [ClassPair(**record) for record in _records(path, ClassPair)]


def _records(path: str | Path, kind: type[Record]) -> Iterable[dict[str, Any]]:
    known = [field.name for field in fields(kind)]
    for number, line in enumerate(read_lines(path, REMEDY), 1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict) or list(record) != known:
            raise InputError(f"{path}, line {number}: its fields must be {', '.join(known)}; {REMEDY} again")
        yield record


def images_of(records: Sequence[Record]) -> list[str]:
    """Every image that the records name, once, in order of first mention."""
    return list(dict.fromkeys(name for record in records for name in record.images))


def as_pairs(images: Iterable[CaptionedImage]) -> list[Pair]:
    """Each image as a pair of itself, for what asks its captions alone (negatives, vocabularies)."""
    return [Pair(own.image_id, own.image_id, own.split, own.image, own.image, own.captions) for own in images]
