"""What a scene is: things on the table, the views of them, and how near to each other CLEVR lets them lie."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from pipeline.datasets.schema import Placed, SceneFacts
from pipeline.tabletop import geometry
from pipeline.tabletop.looks import STUDIO, Look
from pipeline.tabletop.relations import Point, offsets
from pipeline.tabletop.words import COLORS, MATERIALS, SHAPES, SIZES

RADII = dict(zip(SIZES, (0.7, 0.35), strict=True))  # of the circle on the table that a thing never leaves

GAP = 0.25  # between the circles of two things
AXIS_GAP = 0.4  # between two centres along left/right and along front/behind

CAMERA = (7.48, -6.51, 5.34)
LIGHTS = ((6.45, -2.91, 4.26), (-4.67, -4.01, 3.01), (-1.17, 2.65, 5.82))  # key, fill, back

Box = tuple[int, int, int, int]
Option = TypeVar("Option")


@dataclass(frozen=True)
class Thing:
    """An object; `number` stays with it through a change. Places in CLEVR's units, rotation in radians."""

    number: int
    size: str
    color: str
    material: str
    shape: str
    x: float
    y: float
    rotation: float

    @property
    def look(self) -> tuple[str, str, str, str]:
        """The four attributes; no two things of a scene share them."""
        return self.size, self.color, self.material, self.shape

    def half_height(self, look: Look = STUDIO) -> float:
        """Height of the centre above the table: the radius, or a cube's half side."""
        return RADII[self.size] / (look.cube if self.shape == "cube" else 1.0)


@dataclass(frozen=True)
class View:
    """A camera that looks at the origin, three lights, and what it sees: one box a thing, in pixels."""

    camera: Point
    lights: tuple[Point, ...]
    boxes: tuple[Box, ...] = ()  # x, y, width, height of a thing's visible pixels


@dataclass(frozen=True)
class Scene:
    """Things before and after one change, and three views: `semantic` shows `after`, the others `before`."""

    number: int
    change_type: str
    changed: int  # Thing.number
    before: tuple[Thing, ...]
    after: tuple[Thing, ...]
    default: View
    semantic: View
    nonsemantic: View

    def facts(self, changed: bool) -> SceneFacts:
        """What the pair with the change shows, or the one where nothing but the view changes."""
        after, view = (self.after, self.semantic) if changed else (self.before, self.nonsemantic)
        return SceneFacts(
            before=_placed(self.before),
            after=_placed(after),
            before_camera=self.default.camera,
            after_camera=view.camera,
            changed=self.changed if changed else None,
        )


def _placed(things: tuple[Thing, ...]) -> tuple[Placed, ...]:
    return tuple(Placed(thing.number, *thing.look, thing.x, thing.y) for thing in things)


def clear(thing: Thing, others: tuple[Thing, ...], view: View) -> bool:
    """Whether a thing keeps CLEVR's margins to all others, along the table's axes as `view` sees them."""
    for other in others:
        reach = RADII[thing.size] + RADII[other.size] + GAP
        if math.hypot(thing.x - other.x, thing.y - other.y) < reach:
            return False
        if min(abs(along) for along in offsets(thing, other, view.camera)) < AXIS_GAP:
            return False
    return True


def solids(things: tuple[Thing, ...], look: Look = STUDIO) -> np.ndarray:
    """n x 10, the things as the ray tracer wants them (see pictures.identify)."""
    rows = [
        (
            geometry.ROUNDED if look.rounded and thing.shape == "cube" else SHAPES.index(thing.shape),
            *(thing.x, thing.y, thing.half_height(look)),
            *(math.cos(thing.rotation), math.sin(thing.rotation)),
            *((channel / 255) ** look.contrast for channel in COLORS[thing.color]),
            MATERIALS.index(thing.material),
        )
        for thing in things
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 10)


def box_of(mask: np.ndarray) -> Box:
    """The box around a mask's pixels, height x width bool, of which there is at least one."""
    (lines,), (columns,) = np.nonzero(mask.any(1)), np.nonzero(mask.any(0))
    left, top = int(columns[0]), int(lines[0])
    return left, top, int(columns[-1]) - left + 1, int(lines[-1]) - top + 1


def pick(options: Sequence[Option], rng: np.random.Generator) -> Option:
    """One of them, each as likely."""
    return options[int(rng.integers(len(options)))]
