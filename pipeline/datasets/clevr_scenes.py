"""What is known of CLEVR-Change's scenes beyond its authors' files: scenes.json, as `tabletop` writes it."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from pipeline.datasets.annotations import Published
from pipeline.datasets.schema import NO_CHANGE, ChangedObject, Look, Placed, SceneFacts, changed_things
from pipeline.io.errors import InputError
from pipeline.io.records import read_foreign

REMEDY = "remove it or render the dataset again"
Share = Annotated[float, Field(ge=0, le=1)]
Pixels = Annotated[int | float, Field(ge=-(10**6), le=10**6)]  # as written: 3 stays 3
Box = tuple[Pixels, Pixels, Pixels, Pixels]
Point = tuple[float, float, float]


class _Thing(Published):
    number: int
    size: str
    color: str
    material: str
    shape: str
    position: Point | None = None


def _off_axis(camera: Point) -> Point:
    if camera[0] == camera[1] == 0:
        raise ValueError("a camera right above the middle has no left and right")
    return camera


class _View(Published):
    camera: Annotated[Point, AfterValidator(_off_axis)]


class _Views(Published):
    default: _View
    semantic: _View
    nonsemantic: _View


class SceneRecord(Published):
    """A scene; None where the file does not say."""

    number: int
    before_box: Box | None = None
    after_box: Box | None = None
    semantic_iou: Share | None = None
    distractor_iou: Share | None = None
    changed: int | None = None  # the number of the object that changes
    before: tuple[_Thing, ...] = ()
    after: tuple[_Thing, ...] = ()
    views: _Views | None = None

    def facts(self, kind: str) -> SceneFacts | None:
        """What a pair of that kind of change shows (NO_CHANGE: the pair without); None where not all is said.

        Raises InputError where the object that changes is not there, or there where it must not be.
        """
        changed = None if kind == NO_CHANGE else self.changed
        before = _placed(self.before)
        after = before if changed is None else _placed(self.after)
        if self.views is None or self.changed is None or before is None or after is None:
            return None
        view = self.views.nonsemantic if changed is None else self.views.semantic
        found = SceneFacts(before, after, self.views.default.camera, view.camera, changed)
        if changed is not None:
            try:
                changed_things(found, kind)
            except ValueError as error:
                raise InputError(f"scenes.json, scene {self.number}: {error}; {REMEDY}") from None
        return found

    @property
    def changed_object(self) -> ChangedObject | None:
        """The object that changes; None where the scene does not say which."""
        if self.changed is None:
            return None
        return ChangedObject(self._look(self.before), self._look(self.after))

    def _look(self, things: tuple[_Thing, ...]) -> Look | None:
        own = [Look(t.size, t.color, t.material, t.shape) for t in things if t.number == self.changed]
        return own[0] if own else None


def _placed(things: tuple[_Thing, ...]) -> tuple[Placed, ...] | None:
    """None where a thing's place is not said."""
    found = tuple(
        Placed(t.number, t.size, t.color, t.material, t.shape, *t.position[:2]) for t in things if t.position
    )
    return found if len(found) == len(things) else None


class _File(Published):
    scenes: tuple[SceneRecord, ...]


def read_scenes(path: Path) -> dict[int, SceneRecord]:
    """Scene number -> what is known of it; empty where there is no such file.

    Raises InputError naming the file and the keys that are wrong.
    """
    if not path.exists():
        return {}
    scenes = read_foreign(path, _File, REMEDY).scenes
    numbered = {scene.number: scene for scene in scenes}
    if len(numbered) < len(scenes):
        raise InputError(f"{path} describes a scene twice; {REMEDY}")
    return numbered
