"""The one schema of pairs that every dataset is read into."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pipeline.io.outputs import write_json_lines
from pipeline.io.records import read_records

REMEDY = "run `dvc repro prepare` to make it"
SPLITS = ("train", "val", "test")
Split = Literal["train", "val", "test"]
CHANGE_TYPES = ("color", "texture", "add", "drop", "move")
Kind = Literal["color", "texture", "add", "drop", "move", "change", "none"]
"""All that a pair's change_type can be."""
NO_CHANGE = "none"
CHANGE = "change"
"""A change of a kind that the dataset does not name."""
Number = int | float  # as written: 3 stays 3
Box = tuple[Number, Number, Number, Number]
"""x, y, width, height in pixels of the image as it lies on disk."""


@dataclass(frozen=True)
class Look:
    """What an object of CLEVR looks like, in the generator's words."""

    size: str
    color: str
    material: str
    shape: str


@dataclass(frozen=True)
class ChangedObject:
    """The object that changes as it looks before and after; None where it is not there."""

    before: Look | None
    after: Look | None


@dataclass(frozen=True)
class Placed:
    """An object on the table, in the generator's words; `number` stays with it through a change."""

    number: int
    size: str
    color: str
    material: str
    shape: str
    x: float  # of its middle, in CLEVR's units
    y: float


@dataclass(frozen=True)
class SceneFacts:
    """All that stands in both pictures of a pair, and from where they are seen (x, y, z in CLEVR's units).

    `changed`: the number of the object that changes; None where nothing does, and then `after` is `before`.
    """

    before: tuple[Placed, ...]
    after: tuple[Placed, ...]
    before_camera: tuple[float, float, float]
    after_camera: tuple[float, float, float]
    changed: int | None


@dataclass(frozen=True)
class Pair:
    """A before image, an after image, and what people said of the difference."""

    pair_id: str
    scene_id: str  # pairs of one scene share it, and share a split
    split: str  # one of SPLITS
    before: str  # file name relative to the dataset's root
    after: str
    captions: tuple[str, ...]  # the references, at least one, as written
    change_type: str | None = None  # one of CHANGE_TYPES, CHANGE, NO_CHANGE, or None where unknown
    before_box: Box | None = None  # the changed object in the before image
    after_box: Box | None = None
    viewpoint_iou: float | None = None  # 0..1, how much the two views overlap
    changed_object: ChangedObject | None = None  # of a change pair, where the scenes are known
    scene: SceneFacts | None = None  # where the dataset publishes its scenes

    @property
    def changed(self) -> bool | None:
        """Whether something changed; None where the dataset does not say."""
        return None if self.change_type is None else self.change_type != NO_CHANGE


@dataclass(frozen=True)
class ClassPair:
    """Two images and the class of what each shows, without a caption: of NABirds, for pre-training."""

    pair_id: str
    split: str  # train or val
    before: str  # file name relative to the dataset's root
    after: str
    before_class: int  # from 0 to the number of classes - 1
    after_class: int


def changed_things(scene: SceneFacts, kind: str) -> tuple[Placed | None, Placed | None]:
    """The object that changes, before and after; None where it is not there (added, dropped).

    Raises ValueError where it is not there and should be, or the other way round.
    """
    before, after = (
        next((thing for thing in things if thing.number == scene.changed), None)
        for things in (scene.before, scene.after)
    )
    if (before is None, after is None) != (kind == "add", kind == "drop"):
        raise ValueError(f"object {scene.changed}, of the change {kind!r}, is in the wrong pictures")
    return before, after


def write_pairs(path: str | Path, pairs: Iterable[Pair | ClassPair]) -> None:
    """Write pairs as JSON lines, fields in the order of the schema."""
    write_json_lines(path, (asdict(pair) for pair in pairs))


def read_pairs(path: str | Path, remedy: str = REMEDY) -> list[Pair]:
    """Read what `write_pairs` wrote. Raises InputError naming the line that is not a pair, or one again."""
    return list(read_records(path, Pair, remedy, "pair_id"))


def of_split(pairs: Iterable[Pair], split: str) -> list[Pair]:
    """The pairs of one split, in order."""
    return [pair for pair in pairs if pair.split == split]


def images_of(pairs: Iterable[Pair | ClassPair]) -> list[str]:
    """Every image that the pairs name, once, in order of first mention."""
    return list(dict.fromkeys(name for pair in pairs for name in (pair.before, pair.after)))
