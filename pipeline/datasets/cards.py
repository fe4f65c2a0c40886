"""Dataset cards, data/cards/<dataset>.yaml: description, files and published counts of a dataset."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from pipeline.config.dataset_params import Strict
from pipeline.datasets.schema import Kind
from pipeline.io.inputs import read_yaml
from pipeline.io.records import checked

FOLDER = Path("data/cards")
DEFAULT = "default"  # key of the counts of a dataset without protocols
REMEDY = "restore it with git"
Number = Annotated[int, Field(ge=0)]


class LeftOut(Strict):
    """Published pairs and captions that are blank and so not read."""

    pairs: Number = 0
    captions: Number = 0


class Split(Strict):
    """Published counts of one split; None if not published."""

    pairs: Number
    scenes: Number | None = None
    images: Number | None = None
    captions: Number | None = None
    left_out: LeftOut | None = None


class References(Strict):
    fewest: Number
    most: Number


class Expected(Strict):
    """Published values of the counts in pipeline/datasets/counts.py."""

    train: Split
    val: Split
    test: Split
    types: dict[Literal[Kind, "unknown"], Number] | None = None
    pairs: Number | None = None
    images: Number | None = None
    captions: Number | None = None
    references: References | None = None
    vocabulary: Number | None = None
    longest: Number | None = None


class Licence(Strict):
    """Terms of the images and captions together; commands.publish obeys them."""

    name: str = Field(min_length=1)  # an identifier such as cc-by-4.0; `not stated` without one
    copying: bool  # True if everybody may publish copies
    terms: str = Field(min_length=1)  # where the licence is stated, or why copies are not allowed


class Card(Strict):
    """One dataset. `expected`: counts by protocol, or under `default`; None if nothing is published."""

    name: str
    citation: str
    source: str  # where to get it
    licence: Licence | None = None  # None: not known, so that nobody may copy
    files: dict[str, str] = Field(min_length=1)  # path, {} for a number or name -> meaning
    size: str | None = None
    notes: tuple[str, ...] = Field(default=(), strict=False)
    expected: dict[str, Expected] | None = None

    def counts(self, protocol: str | None) -> dict[str, Any] | None:
        """Return the published counts of a protocol without unknown ones; None if there are none."""
        found = (self.expected or {}).get(DEFAULT if protocol is None else protocol)
        return None if found is None else found.model_dump(exclude_none=True)


def path_of(dataset: str) -> Path:
    """Return the path of a dataset's card."""
    return FOLDER / f"{dataset}.yaml"


def load(path: Path) -> Card:
    """Read a card. Raises InputError naming the file and the first wrong key."""
    return checked(Card, read_yaml(path, REMEDY), str(path), "correct it")
