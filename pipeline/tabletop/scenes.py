"""Scenes: objects on the table, views of them, and CLEVR's margins between objects."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from pipeline.datasets.schema import Placed, SceneFacts
from pipeline.tabletop import geometry
from pipeline.tabletop.looks import STUDIO, Look
from pipeline.tabletop.words import COLORS, MATERIALS, SHAPES, SIZES, Point, offsets

RADII = dict(zip(SIZES, (0.7, 0.35), strict=True))  # of a circle on the table around an object

GAP = 0.25  # between the circles of two objects
AXIS_GAP = 0.4  # between two centres along left/right and along front/behind

CAMERA = (7.48, -6.51, 5.34)
LIGHTS = ((6.45, -2.91, 4.26), (-4.67, -4.01, 3.01), (-1.17, 2.65, 5.82))  # key, fill, back

Box = tuple[int, int, int, int]
Option = TypeVar("Option")


@dataclass(frozen=True)
class Thing:
    """An object; a change keeps its `number`. Positions are in CLEVR's units, the rotation in radians."""

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
        """The four attributes; no two objects of a scene have the same."""
        return self.size, self.color, self.material, self.shape

    def half_height(self, look: Look = STUDIO) -> float:
        """Return the height of the centre above the table: the radius, or a cube's half side."""
        return RADII[self.size] / (look.cube if self.shape == "cube" else 1.0)


@dataclass(frozen=True)
class View:
    """A camera that looks at the origin, three lights, and the box of each object in pixels."""

    camera: Point
    lights: tuple[Point, ...]
    boxes: tuple[Box, ...] = ()  # x, y, width, height of an object's visible pixels


@dataclass(frozen=True)
class Scene:
    """Objects before and after a change, and three views: `semantic` shows `after`, the others `before`."""

    number: int
    change_type: str
    changed: int  # Thing.number
    before: tuple[Thing, ...]
    after: tuple[Thing, ...]
    default: View
    semantic: View
    nonsemantic: View

    def facts(self, changed: bool) -> SceneFacts:
        """Return the facts of the changed pair, or of the pair in which only the view changes."""
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
    """Return whether an object keeps CLEVR's margins to all others, along the axes that `view` sees."""
    for other in others:
        reach = RADII[thing.size] + RADII[other.size] + GAP
        if math.hypot(thing.x - other.x, thing.y - other.y) < reach:
            return False
        if min(abs(along) for along in offsets(thing, other, view.camera)) < AXIS_GAP:
            return False
    return True


def solids(things: tuple[Thing, ...], look: Look = STUDIO) -> np.ndarray:
    """Return the objects in the ray tracer's form, (n, 10); see pictures.identify."""
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
    """Return the box around the true pixels of a mask (height, width) bool that has at least one."""
    (lines,), (columns,) = np.nonzero(mask.any(1)), np.nonzero(mask.any(0))
    left, top = int(columns[0]), int(lines[0])
    return left, top, int(columns[-1]) - left + 1, int(lines[-1]) - top + 1


def pick(options: Sequence[Option], rng: np.random.Generator) -> Option:
    """Return a uniformly drawn option."""
    return options[int(rng.integers(len(options)))]
