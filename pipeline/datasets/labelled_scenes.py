"""Read photographs of real scenes that were labelled by hand, as pairs with scene facts.

The labels are in labels.jsonl, next to images in CLEVR-Change's layout. Each line of the file describes one
scene. `objects` lists every object of the before image: size, color, material, shape, and the x and y of the
object's centre in pixels. These keys describe the change in the semantic image; a scene has at most one
change:

    {"changed": I, "new_color": C}       object I of the list, counted from 0, has another colour
    {"changed": I, "new_material": M}    object I has another material
    {"changed": I, "moved_to": [X, Y]}   object I has its centre at X, Y in the semantic image
    {"changed": I, "gone": true}         object I is missing
    {"added": OBJECT}                    there is a further object
    (none of these keys)                 the scene has no semantic image

A scene gives an unchanged pair only if it has a distractor image.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipeline.config.dataset_params import Strict
from pipeline.datasets.clevr_change import DEFAULT, DISTRACTOR, SEMANTIC
from pipeline.datasets.schema import NO_CHANGE, Pair, Placed, SceneFacts
from pipeline.io.errors import InputError
from pipeline.io.records import read_records

FILE = "labels.jsonl"
REMEDY = "docs/evaluation.md says how scenes are labelled"
# The y of a label grows downwards in the image. Positions are stored as (x, -y), in pixels. Seen from this
# camera, "right of" then means a larger x, and "behind" means a larger second coordinate.
CAMERA = (0.0, -1.0, 1.0)
KINDS = {"new_color": "color", "new_material": "texture", "moved_to": "move", "gone": "drop", "added": "add"}
"""Kinds of change: key in labels.jsonl -> word in schema.py."""

Color = Literal["gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow"]
Material = Literal["rubber", "metal"]
Pixels = Annotated[float, Field(ge=0, le=100_000)]


class LabelledObject(Strict):
    """An object of an image, in the words of CLEVR's generator."""

    size: Literal["large", "small"]
    color: Color
    material: Material
    shape: Literal["sphere", "cube", "cylinder"]
    x: Pixels
    y: Pixels

    def placed(self, number: int) -> Placed:
        return Placed(number, self.size, self.color, self.material, self.shape, self.x, -self.y)


class LabelledScene(Strict):
    """Labels of one scene: a line of labels.jsonl. The module's docstring explains the keys.

    `scene` is the scene's number in the file names of the images.
    """

    scene: Annotated[int, Field(ge=0, le=999_999)]
    objects: Annotated[list[LabelledObject], Field(min_length=1, max_length=50)]
    changed: Annotated[int, Field(ge=0)] | None = None
    new_color: Color | None = None
    new_material: Material | None = None
    moved_to: Annotated[list[Pixels], Field(min_length=2, max_length=2)] | None = None
    gone: Literal[True] | None = None
    added: LabelledObject | None = None

    @model_validator(mode="after")
    def _one_change(self) -> Self:
        change_keys = [key for key in KINDS if getattr(self, key) is not None]
        if len(change_keys) > 1:
            raise ValueError("a scene has one change; keep one of its keys")
        if (self.changed is not None) != bool({*change_keys} - {"added"}):
            raise ValueError("'changed' goes with one of new_color, new_material, moved_to, gone")
        if self.changed is not None and self.changed >= len(self.objects):
            raise ValueError(
                f"changed is {self.changed}, and the objects are numbered 0 to {len(self.objects) - 1}"
            )
        return self

    @property
    def kind(self) -> str:
        return next((kind for key, kind in KINDS.items() if getattr(self, key) is not None), NO_CHANGE)

    def facts(self, kind: str) -> SceneFacts:
        """Return the facts of the unchanged pair if `kind` is NO_CHANGE, else of the changed pair."""
        before = tuple(labelled.placed(number) for number, labelled in enumerate(self.objects))
        if kind == NO_CHANGE:
            return SceneFacts(before, before, CAMERA, CAMERA, None)
        if self.added is not None:
            number = len(before)
            return SceneFacts(before, (*before, self.added.placed(number)), CAMERA, CAMERA, number)
        assert self.changed is not None
        x, y = self.moved_to or (None, None)
        new_values = {"color": self.new_color, "material": self.new_material, "x": x, "y": y}
        update = {key: value for key, value in new_values.items() if value is not None}
        changed = self.objects[self.changed].model_copy(update=update).placed(self.changed)
        after = (*before[: self.changed], *([] if self.gone else [changed]), *before[self.changed + 1 :])
        return SceneFacts(before, after, CAMERA, CAMERA, self.changed)


def read(folder: Path) -> list[Pair]:
    """Return each scene's changed pair and, if it has a distractor image, unchanged pair."""
    scenes = list(read_records(folder / FILE, LabelledScene, REMEDY, "scene"))
    pairs = [pair for scene in scenes for pair in _pairs(folder, scene)]
    if not pairs:
        raise InputError(f"{folder / FILE} describes no pair; {REMEDY}")
    return pairs


def _pairs(folder: Path, scene: LabelledScene) -> list[Pair]:
    before, semantic, distractor = (name.format(scene.scene) for name in (DEFAULT, SEMANTIC, DISTRACTOR))
    afters = [(scene.kind, semantic, "")] if scene.kind != NO_CHANGE else []
    for name in (before, *(after for _, after, _ in afters)):
        if not (folder / name).is_file():
            raise InputError(
                f"{folder / name} is missing, and {FILE} describes scene {scene.scene}; add the image"
            )
    if (folder / distractor).is_file():
        afters.append((NO_CHANGE, distractor, "_n"))
    number = f"{scene.scene:06d}"
    return [
        Pair(f"{number}.png{suffix}", number, "test", before, after, (), kind, scene=scene.facts(kind))
        for kind, after, suffix in afters
    ]
