"""Dataclasses of pairs and their scenes, for all dataset readers. Functions read and write files of pairs."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from pipeline.io.outputs import write_json_lines
from pipeline.io.records import read_records

REMEDY = "run `dvc repro prepare` to make it"
SPLITS = ("train", "val", "test")
Split = Literal["train", "val", "test"]
CHANGE_TYPES = ("color", "texture", "add", "drop", "move")
Kind = Literal["color", "texture", "add", "drop", "move", "change", "none"]
"""Values of a pair's change_type."""
NO_CHANGE = "none"
EXCHANGED = {"add": "drop", "drop": "add"}
"""Kind of change -> its reverse; the other kinds are their own reverse."""
CHANGE = "change"
"""The change_type of a change whose kind the dataset does not name."""
Number = int | float  # kept as in the file: 3 does not become 3.0
Box = tuple[Number, Number, Number, Number]
"""x, y, width and height, in pixels of the image file."""


@dataclass(frozen=True)
class Look:
    """Appearance of a CLEVR object, in the words of CLEVR's generator."""

    size: str
    color: str
    material: str
    shape: str


@dataclass(frozen=True)
class ChangedObject:
    """Appearance of the changed object in each image; None for the image without the object."""

    before: Look | None
    after: Look | None


@dataclass(frozen=True)
class Placed:
    """An object on the table, in the words of CLEVR's generator. A change does not alter its `number`."""

    number: int
    size: str
    color: str
    material: str
    shape: str
    x: float  # of the centre, in CLEVR's units
    y: float


@dataclass(frozen=True)
class SceneFacts:
    """The objects in both images of a pair, and the positions of the cameras (x, y, z in CLEVR's units)."""

    before: tuple[Placed, ...]
    after: tuple[Placed, ...]
    before_camera: tuple[float, float, float]
    after_camera: tuple[float, float, float]
    changed: int | None  # number of the changed object; None if nothing changes, and `after` equals `before`


@dataclass(frozen=True)
class Pair:
    """A before image, an after image, and captions that describe the difference."""

    pair_id: str
    scene_id: str  # pairs with the same scene_id are in the same split
    split: str  # one of SPLITS
    before: str  # file name relative to the dataset's root
    after: str
    captions: tuple[str, ...]  # references as in the files; scenes labelled by hand may have none
    change_type: str | None = None  # one of CHANGE_TYPES, CHANGE or NO_CHANGE; None if unknown
    before_box: Box | None = None  # box of the changed object in the before image
    after_box: Box | None = None
    viewpoint_iou: float | None = None  # overlap of the two views, from 0 to 1
    changed_object: ChangedObject | None = None  # only for a changed pair whose scene is known
    scene: SceneFacts | None = None  # only if the dataset publishes its scenes

    @property
    def changed(self) -> bool | None:
        return None if self.change_type is None else self.change_type != NO_CHANGE


@dataclass(frozen=True)
class ClassPair:
    """Two images and their classes, without a caption. NABirds gives such pairs for pre-training."""

    pair_id: str
    split: str  # train or val
    before: str  # file name relative to the dataset's root
    after: str
    before_class: int  # counted from 0
    after_class: int


def exchanged(pair: Pair) -> Pair:
    """Return the pair with its two images exchanged. Its captions still describe the original order."""
    scene, changed = pair.scene, pair.changed_object
    return replace(
        pair,
        before=pair.after,
        after=pair.before,
        change_type=EXCHANGED.get(str(pair.change_type), pair.change_type),
        before_box=pair.after_box,
        after_box=pair.before_box,
        changed_object=changed and ChangedObject(changed.after, changed.before),
        scene=scene
        and SceneFacts(scene.after, scene.before, scene.after_camera, scene.before_camera, scene.changed),
    )


def changed_objects(scene: SceneFacts, kind: str) -> tuple[Placed | None, Placed | None]:
    """Return the changed object before ("add": None) and after ("drop": None), or raise ValueError."""
    before, after = (
        next((placed for placed in objects if placed.number == scene.changed), None)
        for objects in (scene.before, scene.after)
    )
    if (before is None, after is None) != (kind == "add", kind == "drop"):
        raise ValueError(f"object {scene.changed}, of the change {kind!r}, is in the wrong images")
    return before, after


def write_pairs(path: str | Path, pairs: Iterable[Pair | ClassPair]) -> None:
    write_json_lines(path, (asdict(pair) for pair in pairs))


def read_pairs(path: str | Path, remedy: str = REMEDY) -> list[Pair]:
    return list(read_records(path, Pair, remedy, "pair_id"))


def of_split(pairs: Iterable[Pair], split: str) -> list[Pair]:
    return [pair for pair in pairs if pair.split == split]


def images_of(pairs: Iterable[Pair | ClassPair]) -> list[str]:
    return list(dict.fromkeys(name for pair in pairs for name in (pair.before, pair.after)))
