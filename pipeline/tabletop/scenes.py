"""Dataclasses for scenes, objects and views, and functions on objects, such as a check of distances."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from pipeline.datasets.schema import Placed, SceneFacts
from pipeline.tabletop import geometry
from pipeline.tabletop.looks import STUDIO, LookConstants
from pipeline.tabletop.words import COLORS, MATERIALS, SHAPES, SIZES, Point, offsets

RADII = dict(zip(SIZES, (0.7, 0.35), strict=True))  # radius of the circle around an object on the table

GAP = 0.25  # minimum distance between the circles of two objects
AXIS_GAP = 0.4  # minimum distance of two centres along left/right, and also along front/behind

CAMERA = (7.48, -6.51, 5.34)
LIGHTS = ((6.45, -2.91, 4.26), (-4.67, -4.01, 3.01), (-1.17, 2.65, 5.82))  # key, fill and back light

Box = tuple[int, int, int, int]
Option = TypeVar("Option")


@dataclass(frozen=True)
class SceneObject(Placed):
    """An object on the table, with its rotation about z in radians."""

    rotation: float

    @property
    def look(self) -> tuple[str, str, str, str]:
        return self.size, self.color, self.material, self.shape

    def half_height(self, look: LookConstants = STUDIO) -> float:
        return RADII[self.size] / (look.cube if self.shape == "cube" else 1.0)


@dataclass(frozen=True)
class View:
    """A view of a scene: a camera that looks at the origin, three lights, and the box of each object."""

    camera: Point
    lights: tuple[Point, ...]
    boxes: tuple[Box, ...] = ()  # x, y, width and height of the visible part of each object, in pixels


@dataclass(frozen=True)
class Scene:
    """The objects of a scene, `before` and `after` its change, and the three views that are rendered.

    The view `semantic` shows the objects `after`; the views `default` and `nonsemantic` show `before`.
    """

    number: int
    change_type: str
    changed: int  # the number of the changed object
    before: tuple[SceneObject, ...]
    after: tuple[SceneObject, ...]
    default: View
    semantic: View
    nonsemantic: View

    def facts(self, changed: bool) -> SceneFacts:
        """Return the facts of the changed pair if `changed` is true, else of the unchanged pair."""
        after, view = (self.after, self.semantic) if changed else (self.before, self.nonsemantic)
        return SceneFacts(
            before=_placed(self.before),
            after=_placed(after),
            before_camera=self.default.camera,
            after_camera=view.camera,
            changed=self.changed if changed else None,
        )


def _placed(objects: tuple[SceneObject, ...]) -> tuple[Placed, ...]:
    return tuple(Placed(item.number, *item.look, item.x, item.y) for item in objects)


def clear(item: SceneObject, others: tuple[SceneObject, ...], view: View) -> bool:
    """Return True if an object's circle is GAP from all others, and its centre AXIS_GAP along both axes."""
    return all(
        math.hypot(item.x - other.x, item.y - other.y) >= RADII[item.size] + RADII[other.size] + GAP
        and min(map(abs, offsets(item, other, view.camera))) >= AXIS_GAP
        for other in others
    )


def solids(objects: tuple[SceneObject, ...], look: LookConstants = STUDIO) -> np.ndarray:
    """Return the objects as an array (n, 10) for the ray tracer. geometry.py describes the array."""
    rows = [
        (
            geometry.ROUNDED if look.rounded and item.shape == "cube" else SHAPES.index(item.shape),
            *(item.x, item.y, item.half_height(look)),
            *(math.cos(item.rotation), math.sin(item.rotation)),
            *((channel / 255) ** look.contrast for channel in COLORS[item.color]),
            MATERIALS.index(item.material),
        )
        for item in objects
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 10)


def box_of(mask: np.ndarray) -> Box:
    """Return the box around the true pixels of a mask (height, width). At least one pixel must be true."""
    (lines,), (columns,) = np.nonzero(mask.any(1)), np.nonzero(mask.any(0))
    left, top = int(columns[0]), int(lines[0])
    return left, top, int(columns[-1]) - left + 1, int(lines[-1]) - top + 1


def pick(options: Sequence[Option], rng: np.random.Generator) -> Option:
    return options[int(rng.integers(len(options)))]
