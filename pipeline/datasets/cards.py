"""Dataset cards, data/cards/<dataset>.yaml: what a dataset is, which files go where, what to count."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from pipeline.config.dataset_params import Strict
from pipeline.datasets.schema import Kind
from pipeline.io.inputs import read_yaml
from pipeline.io.records import checked

FOLDER = Path("data/cards")
DEFAULT = "default"  # counts of a dataset without protocols
REMEDY = "restore it with git"
Number = Annotated[int, Field(ge=0)]


class LeftOut(Strict):
    """How many of the published ones say nothing, and are not read."""

    pairs: Number = 0
    captions: Number = 0


class Split(Strict):
    """Published counts of one split; what is not published is left out."""

    pairs: Number
    scenes: Number | None = None
    images: Number | None = None
    captions: Number | None = None
    left_out: LeftOut | None = None


class References(Strict):
    fewest: Number
    most: Number


class Expected(Strict):
    """What pipeline/datasets/counts.py should count."""

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


class Card(Strict):
    """One dataset. `expected`: by protocol, or `default`; absent where nothing is published."""

    name: str
    citation: str
    source: str  # where it is to be had
    files: dict[str, str] = Field(min_length=1)  # path, {} for a number or name -> meaning
    size: str | None = None
    notes: tuple[str, ...] = Field(default=(), strict=False)
    expected: dict[str, Expected] | None = None

    def counts(self, protocol: str | None) -> dict[str, Any] | None:
        """The expected counts of a protocol, without what is not known; None where there are none."""
        found = (self.expected or {}).get(DEFAULT if protocol is None else protocol)
        return None if found is None else found.model_dump(exclude_none=True)


def path_of(dataset: str) -> Path:
    """Where the card of a dataset lies."""
    return FOLDER / f"{dataset}.yaml"


def load(path: Path) -> Card:
    """The card in a file. Raises InputError naming the file and the first key that is wrong."""
    return checked(Card, read_yaml(path, REMEDY), str(path), "mend it")
