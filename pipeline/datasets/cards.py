"""Dataset cards: data/cards/<dataset>.yaml has a dataset's description, files and published counts."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from pipeline.config.dataset_params import Strict
from pipeline.datasets.schema import Kind
from pipeline.io.inputs import read_yaml
from pipeline.io.records import checked

FOLDER = Path("data/cards")
DEFAULT = "default"  # key of the published counts if the dataset has no protocols
REMEDY = "restore it with git"
Number = Annotated[int, Field(ge=0)]


class Split(Strict):
    """Published counts of one split. A count is None if it is not published."""

    pairs: Number
    scenes: Number | None = None
    images: Number | None = None
    captions: Number | None = None
    left_out: dict[Literal["pairs", "captions"], Number] | None = None  # blank items, which readers leave out


class Expected(Strict):
    """Published counts of a dataset. pipeline/datasets/counts.py defines each count."""

    train: Split
    val: Split
    test: Split
    types: dict[Literal[Kind, "unknown"], Number] | None = None
    pairs: Number | None = None
    images: Number | None = None
    captions: Number | None = None
    references: dict[Literal["fewest", "most"], Number] | None = None
    vocabulary: Number | None = None
    longest: Number | None = None


class Licence(Strict):
    """Licence of a dataset's images and captions."""

    name: str = Field(min_length=1)  # an identifier such as cc-by-4.0; `not stated` without one
    copying: bool  # True if everybody may publish copies
    terms: str = Field(min_length=1)  # where the licence is stated, or why copies are not allowed


class Card(Strict):
    """Description of one dataset."""

    name: str
    citation: str
    source: str  # where to get it
    licence: Licence | None = None  # None: the licence is unknown, so nobody may publish copies
    files: dict[str, str] = Field(min_length=1)  # path -> meaning; {} in a path is any number or name
    size: str | None = None
    notes: tuple[str, ...] = Field(default=(), strict=False)
    expected: dict[str, Expected] | None = None  # protocol, or DEFAULT -> published counts

    def counts(self, protocol: str | None) -> dict[str, Any] | None:
        """Return the published counts of a protocol; None if nothing is published for that protocol."""
        published = (self.expected or {}).get(DEFAULT if protocol is None else protocol)
        return None if published is None else published.model_dump(exclude_none=True)


def path_of(dataset: str) -> Path:
    """Return the path of a dataset's card."""
    return FOLDER / f"{dataset}.yaml"


def load(path: Path) -> Card:
    """Return the card in a file. Raises InputError naming the file and the first wrong key."""
    return checked(Card, read_yaml(path, REMEDY), str(path), "correct it")
