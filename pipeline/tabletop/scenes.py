"""Scenes: what lies on the table, where it is seen from, and what changes, by the rules of CLEVR.

Scene N is drawn from its own generator, seeded with (seed, N): it does not depend on how many
scenes are made, nor on the order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from pipeline.errors import InputError
from pipeline.params import Tabletop
from pipeline.tabletop.pictures import identify
from pipeline.tabletop.words import COLORS, MATERIALS, SHAPES, SIZES

CONTRAST = 1.6  # of the colours as reflectances: 1 (as in CLEVR, under its tone curve) is pale, 2.2 dark
RADII = dict(zip(SIZES, (0.7, 0.35), strict=True))  # of the circle on the table that a thing never leaves
CHANGE_TYPES = ("color", "material", "add", "drop", "move")

ARENA = 3.0  # x and y lie in (-ARENA, ARENA)
GAP = 0.25  # between the circles of two things
AXIS_GAP = 0.4  # between two centres along left/right and along front/behind
FAR = 1.2  # how far a moved thing goes at least
TRIES = 50  # for one thing, then a new scene
RESTARTS = 5000  # new scenes, then the settings are too crowded; 10 objects take 60 to 150 as a rule
SHOWN = 200 / (480 * 320)  # share of the picture's pixels that every thing must show

CAMERA = (7.48, -6.51, 5.34)
LIGHTS = ((6.45, -2.91, 4.26), (-4.67, -4.01, 3.01), (-1.17, 2.65, 5.82))  # key, fill, back

Point = tuple[float, float, float]
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

    @property
    def half_height(self) -> float:
        """Height of the centre above the table: the radius, or a cube's half side."""
        return RADII[self.size] / (math.sqrt(2) if self.shape == "cube" else 1.0)


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


class _NoRoomError(Exception):
    """This scene cannot be finished; start another."""


def generator(seed: int, number: int) -> np.random.Generator:
    """The source of everything that is random about one scene."""
    return np.random.default_rng([seed, number])


def sample(settings: Tabletop, number: int, rng: np.random.Generator) -> Scene:
    """Draw scene `number` from its generator. Raises InputError where the settings leave no room."""
    kind = CHANGE_TYPES[number % len(CHANGE_TYPES)]
    count = int(rng.integers(settings.min_objects, settings.max_objects + 1))
    for _ in range(RESTARTS):
        try:
            return _attempt(settings, number, kind, count, rng)
        except _NoRoomError:
            continue
    raise InputError(
        f"tabletop: no scene of {count} objects in {RESTARTS} tries at {settings.width} x {settings.height} "
        f"pixels; lower max_objects or enlarge the picture"
    )


def _attempt(settings: Tabletop, number: int, kind: str, count: int, rng: np.random.Generator) -> Scene:
    """One try at a whole scene."""
    default = View(jittered(CAMERA, 0.5, rng), tuple(jittered(light, 1.0, rng) for light in LIGHTS))
    before: tuple[Thing, ...] = ()
    for _ in range(count):
        before += (_new_thing(before, default, rng),)
    default = _seen(default, before, settings)
    changed, after = _change(kind, before, default, rng)
    semantic = _seen(_other_view(default, settings.viewpoint, rng), after, settings)
    nonsemantic = _seen(_other_view(default, settings.viewpoint, rng), before, settings)
    return Scene(number, kind, changed, before, after, default, semantic, nonsemantic)


def jittered(point: Point, reach: float, rng: np.random.Generator) -> Point:
    """A point moved by at most `reach` along each axis."""
    x, y, z = (round(float(at + rng.uniform(-reach, reach)), 4) for at in point)
    return x, y, z


def _other_view(view: View, viewpoint: str | float, rng: np.random.Generator) -> View:
    """The camera and lights of an after or distractor picture.

    moderate: a little elsewhere, as in CLEVR-Change. extreme: anywhere around the table, as in
    CLEVR-DC, whose authors put the camera "to a random location". A number: a little elsewhere, and
    turned around the table by up to as many degrees either way.
    """
    camera = jittered(view.camera, 1.0, rng)
    if viewpoint != "moderate":
        side = 0.0 if viewpoint == "extreme" else math.atan2(camera[1], camera[0])
        most = 180.0 if viewpoint == "extreme" else float(viewpoint)
        camera = _at_bearing(camera, side + float(rng.uniform(-math.radians(most), math.radians(most))))
    return View(camera, tuple(jittered(light, 0.5, rng) for light in view.lights))


def _at_bearing(camera: Point, bearing: float) -> Point:
    """A camera as far from the table's middle and as high, in the direction `bearing`, in radians."""
    reach = math.hypot(camera[0], camera[1])
    return round(reach * math.cos(bearing), 4), round(reach * math.sin(bearing), 4), camera[2]


def _new_thing(others: tuple[Thing, ...], view: View, rng: np.random.Generator) -> Thing:
    """A thing unlike the others, clear of them."""
    number = max((other.number for other in others), default=-1) + 1
    for _ in range(TRIES):
        thing = Thing(
            number,
            _choice(tuple(RADII), rng),
            _choice(tuple(COLORS), rng),
            _choice(MATERIALS, rng),
            _choice(SHAPES, rng),
            *_place(rng),
            round(float(rng.uniform(0, 2 * math.pi)), 4),
        )
        if _unlike(thing, others) and clear(thing, others, view):
            return thing
    raise _NoRoomError


def _change(
    kind: str, before: tuple[Thing, ...], view: View, rng: np.random.Generator
) -> tuple[int, tuple[Thing, ...]]:
    """The number of the thing that changes, and the things after the change."""
    if kind == "add":
        new = _new_thing(before, view, rng)
        return new.number, (*before, new)
    at = int(rng.integers(len(before)))
    thing, others = before[at], before[:at] + before[at + 1 :]
    if kind == "drop":
        return thing.number, others
    changed = {"color": _recolored, "material": _remade, "move": _moved}[kind](thing, others, view, rng)
    return thing.number, (*before[:at], changed, *before[at + 1 :])


def _recolored(thing: Thing, others: tuple[Thing, ...], view: View, rng: np.random.Generator) -> Thing:
    choices = [replace(thing, color=color) for color in COLORS if color != thing.color]
    choices = [choice for choice in choices if _unlike(choice, others)]
    if not choices:
        raise _NoRoomError
    return _choice(choices, rng)


def _remade(thing: Thing, others: tuple[Thing, ...], view: View, rng: np.random.Generator) -> Thing:
    changed = replace(thing, material=MATERIALS[1 - MATERIALS.index(thing.material)])
    if not _unlike(changed, others):
        raise _NoRoomError
    return changed


def _moved(thing: Thing, others: tuple[Thing, ...], view: View, rng: np.random.Generator) -> Thing:
    for _ in range(TRIES):
        x, y = _place(rng)
        changed = replace(thing, x=x, y=y)
        if math.hypot(x - thing.x, y - thing.y) >= FAR and clear(changed, others, view):
            return changed
    raise _NoRoomError


def _choice(options: Sequence[Option], rng: np.random.Generator) -> Option:
    return options[int(rng.integers(len(options)))]


def _place(rng: np.random.Generator) -> tuple[float, float]:
    return round(float(rng.uniform(-ARENA, ARENA)), 4), round(float(rng.uniform(-ARENA, ARENA)), 4)


def _unlike(thing: Thing, others: tuple[Thing, ...]) -> bool:
    return all(thing.look != other.look for other in others)


def clear(thing: Thing, others: tuple[Thing, ...], view: View) -> bool:
    """Whether a thing keeps CLEVR's margins to all others, along the table's axes as `view` sees them."""
    for other in others:
        reach = RADII[thing.size] + RADII[other.size] + GAP
        if math.hypot(thing.x - other.x, thing.y - other.y) < reach:
            return False
        if min(abs(along) for along in offsets(thing, other, view)) < AXIS_GAP:
            return False
    return True


def offsets(thing: Thing, other: Thing, view: View) -> tuple[float, float]:
    """How far `thing` lies to the right of and behind `other` on the table, as `view` sees them."""
    away = math.hypot(view.camera[0], view.camera[1])
    ahead_x, ahead_y = -view.camera[0] / away, -view.camera[1] / away  # the camera looks at the origin
    dx, dy = thing.x - other.x, thing.y - other.y
    return ahead_y * dx - ahead_x * dy, ahead_x * dx + ahead_y * dy


def solids(things: tuple[Thing, ...]) -> np.ndarray:
    """n x 10, the things as the ray tracer wants them (see pictures.identify)."""
    rows = [
        (
            SHAPES.index(thing.shape),
            *(thing.x, thing.y, thing.half_height),
            *(math.cos(thing.rotation), math.sin(thing.rotation)),
            *((channel / 255) ** CONTRAST for channel in COLORS[thing.color]),
            MATERIALS.index(thing.material),
        )
        for thing in things
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 10)


def _seen(view: View, things: tuple[Thing, ...], settings: Tabletop) -> View:
    """The view with its boxes."""
    rows = identify(solids(things), view.camera, settings.width, settings.height)
    least = SHOWN * settings.width * settings.height
    boxes = []
    for row in range(len(things)):
        mask = rows == row
        if np.count_nonzero(mask) < least:
            raise _NoRoomError
        boxes.append(box_of(mask))
    return replace(view, boxes=tuple(boxes))


def box_of(mask: np.ndarray) -> Box:
    """The box around a mask's pixels, height x width bool, of which there is at least one."""
    lines, columns = np.nonzero(mask)
    left, top = int(columns.min()), int(lines.min())
    return left, top, int(columns.max()) - left + 1, int(lines.max()) - top + 1
