"""Real scenes labelled by hand: labels.jsonl beside images in CLEVR-Change's layout, as pairs with facts.

A line describes one scene: `objects` lists every object of the before image (size, color, material, shape,
x and y of its centre in pixels). At most one change of the semantic image follows:

    {"changed": I, "new_color": C}       object I of the list, counted from 0, has another colour
    {"changed": I, "new_material": M}    it is of another material
    {"changed": I, "moved_to": [X, Y]}   its centre is there in the semantic image
    {"changed": I, "gone": true}         it is not there
    {"added": OBJECT}                    a further object is there
    (none of these)                      the scene has no semantic image

A scene without a distractor image gives no unchanged pair.
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
# From this camera `right of` means a larger x, and `behind` a larger y: places are (x, -y) of the pixels.
CAMERA = (0.0, -1.0, 1.0)

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


class LabelledScene(Strict):
    """One line of labels.jsonl."""

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
        values = [self.new_color, self.new_material, self.moved_to, self.gone]
        given = sum(value is not None for value in values)
        if given + (self.added is not None) > 1:
            raise ValueError("a scene has one change; keep one of its keys")
        if (self.changed is not None) != bool(given):
            raise ValueError("'changed' goes with one of new_color, new_material, moved_to, gone")
        if self.changed is not None and self.changed >= len(self.objects):
            raise ValueError(
                f"changed is {self.changed}, and the objects are numbered 0 to {len(self.objects) - 1}"
            )
        return self

    @property
    def kind(self) -> str:
        """The kind of change, one of the schema's."""
        kinds = {
            "new_color": "color",
            "new_material": "texture",
            "moved_to": "move",
            "gone": "drop",
            "added": "add",
        }
        return next((kind for key, kind in kinds.items() if getattr(self, key) is not None), NO_CHANGE)

    def facts(self, kind: str) -> SceneFacts:
        """Return the facts of both images of a pair; `kind` NO_CHANGE: of the unchanged pair."""
        before = tuple(_placed(number, each) for number, each in enumerate(self.objects))
        if kind == NO_CHANGE:
            return SceneFacts(before, before, CAMERA, CAMERA, None)
        if self.added is not None:
            return SceneFacts(
                before, (*before, _placed(len(before), self.added)), CAMERA, CAMERA, len(before)
            )
        assert self.changed is not None
        thing = self.objects[self.changed].model_dump()
        new = {"color": self.new_color, "material": self.new_material}
        thing |= {key: value for key, value in new.items() if value is not None}
        if self.moved_to is not None:
            thing |= {"x": self.moved_to[0], "y": self.moved_to[1]}
        changed = () if self.gone else (_placed(self.changed, LabelledObject(**thing)),)
        after = (*before[: self.changed], *changed, *before[self.changed + 1 :])
        return SceneFacts(before, after, CAMERA, CAMERA, self.changed)


def _placed(number: int, thing: LabelledObject) -> Placed:
    return Placed(number, thing.size, thing.color, thing.material, thing.shape, thing.x, -thing.y)


def read(folder: Path) -> list[Pair]:
    """The changed and the unchanged pair of each labelled scene, as far as their images are there.

    Raises InputError naming the line and key that are wrong, or the image that is missing.
    """
    scenes = list(read_records(folder / FILE, LabelledScene, REMEDY, "scene"))
    pairs = [pair for scene in scenes for pair in _pairs(folder, scene)]
    if not pairs:
        raise InputError(f"{folder / FILE} describes no pair; {REMEDY}")
    return pairs


def _pairs(folder: Path, scene: LabelledScene) -> list[Pair]:
    names = [name.format(scene.scene) for name in (DEFAULT, SEMANTIC, DISTRACTOR)]
    there = [(folder / name).is_file() for name in names]
    needed = [True, scene.kind != NO_CHANGE, False]
    for name, present, asked in zip(names, there, needed, strict=True):
        if asked and not present:
            raise InputError(
                f"{folder / name} is missing, and {FILE} describes scene {scene.scene}; add the image"
            )
    kinds = ([scene.kind] if scene.kind != NO_CHANGE else []) + ([NO_CHANGE] if there[2] else [])
    return [_pair(scene, kind, names[0], names[1 if kind != NO_CHANGE else 2]) for kind in kinds]


def _pair(scene: LabelledScene, kind: str, before: str, after: str) -> Pair:
    number = f"{scene.scene:06d}"
    name = f"{number}.png" if kind != NO_CHANGE else f"{number}.png_n"
    return Pair(name, number, "test", before, after, (), kind, scene=scene.facts(kind))
