"""Read scenes.json, which pipeline/tabletop writes. The file has facts that CLEVR-Change does not publish."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipeline.datasets.annotations import Annotation
from pipeline.datasets.schema import NO_CHANGE, ChangedObject, Look, Placed, SceneFacts, changed_objects
from pipeline.io.errors import InputError
from pipeline.io.records import read_foreign

REMEDY = "remove it or render the dataset again"
Share = Annotated[float, Field(ge=0, le=1)]
Pixels = Annotated[int | float, Field(ge=-(10**6), le=10**6)]  # kept as in the file: 3 does not become 3.0
Box = tuple[Pixels, Pixels, Pixels, Pixels]
Point = tuple[float, float, float]


class _Object(Annotation):
    number: int
    size: str
    color: str
    material: str
    shape: str
    position: Point | None = None


class _View(Annotation):
    camera: Point


class _Views(Annotation):
    default: _View
    semantic: _View
    nonsemantic: _View


class SceneRecord(Annotation):
    """One scene of scenes.json. A field is None if the file has no value for it.

    `semantic_iou` measures the change of viewpoint in the changed pair. It is the IoU of an unchanged
    object's bounding boxes in the two images, averaged over the unchanged objects. `distractor_iou`
    is this value for the unchanged pair.
    """

    number: int
    before_box: Box | None = None
    after_box: Box | None = None
    semantic_iou: Share | None = None
    distractor_iou: Share | None = None
    changed: int | None = None  # number of the object that changes
    before: tuple[_Object, ...] = ()
    after: tuple[_Object, ...] = ()
    views: _Views | None = None

    def facts(self, kind: str) -> SceneFacts | None:
        """Return the facts of the pair with the change type `kind`; None if the record is incomplete.

        An object that contradicts `kind`, such as an added object in the before image, is an InputError.
        """
        changed = None if kind == NO_CHANGE else self.changed
        before = _placed(self.before)
        after = before if changed is None else _placed(self.after)
        if self.views is None or self.changed is None or before is None or after is None:
            return None
        view = self.views.nonsemantic if changed is None else self.views.semantic
        facts = SceneFacts(before, after, self.views.default.camera, view.camera, changed)
        if changed is not None:
            try:
                changed_objects(facts, kind)
            except ValueError as error:
                raise InputError(f"scenes.json, scene {self.number}: {error}; {REMEDY}") from None
        return facts

    @property
    def changed_object(self) -> ChangedObject | None:
        """Appearance of the changed object before and after; None if the record names no object."""
        if self.changed is None:
            return None
        return ChangedObject(self._look(self.before), self._look(self.after))

    def _look(self, objects: tuple[_Object, ...]) -> Look | None:
        looks = (
            Look(item.size, item.color, item.material, item.shape)
            for item in objects
            if item.number == self.changed
        )
        return next(looks, None)


def _placed(objects: tuple[_Object, ...]) -> tuple[Placed, ...] | None:
    """Return the objects with their positions; None if an object has no position."""
    placed = tuple(
        Placed(item.number, item.size, item.color, item.material, item.shape, *item.position[:2])
        for item in objects
        if item.position
    )
    return placed if len(placed) == len(objects) else None


class _File(Annotation):
    scenes: tuple[SceneRecord, ...]


def read_scenes(path: Path) -> dict[int, SceneRecord]:
    """Return a dictionary: scene number -> record; {} if the file does not exist."""
    scenes = read_foreign(path, _File, REMEDY).scenes if path.exists() else ()
    numbered = {scene.number: scene for scene in scenes}
    if len(numbered) < len(scenes):
        raise InputError(f"{path} describes a scene twice; {REMEDY}")
    return numbered
