"""Sample scenes: objects on the table, a change, and three views.

An object is added, dropped or moved, or gets another colour or material. Before and after the change, any two
objects are at least CLEVR's minimum distances apart. No two objects of a scene have equal attributes, except
with the setting `twins`, as in CLEVR.
The random generator of scene N has the seed (seed, N), so that a scene does not depend on other scenes.
"""

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np

from pipeline.config.params import Tabletop
from pipeline.io.errors import InputError
from pipeline.tabletop import grammar
from pipeline.tabletop.looks import LOOKS, LookConstants
from pipeline.tabletop.rendering import identify
from pipeline.tabletop.scenes import (
    CAMERA,
    LIGHTS,
    RADII,
    Scene,
    SceneObject,
    View,
    box_of,
    clear,
    pick,
    solids,
)
from pipeline.tabletop.words import COLORS, MATERIALS, SHAPES, Point

CHANGE_TYPES = ("color", "material", "add", "drop", "move")
ARENA = 3.0  # x and y of an object are between -ARENA and ARENA
FAR = 1.2  # minimum distance of a move, in CLEVR's units
TRIES = 50  # tries to place one object; then a new scene is started


class NoRoomError(Exception):
    """Error: no place or attribute was found for an object or a change. The caller starts a new scene."""


def change(
    kind: str, before: tuple[SceneObject, ...], view: View, rng: np.random.Generator, twins: bool = False
) -> tuple[int, tuple[SceneObject, ...]]:
    """Change the scene at random by a change of CHANGE_TYPES; return the object's number, and all objects.

    `twins`: two objects may have equal attributes. Raises NoRoomError if no place or other look was found.
    """
    if kind == "add":
        new = new_object(before, view, rng, twins)
        return new.number, (*before, new)
    index = int(rng.integers(len(before)))
    item, others = before[index], before[:index] + before[index + 1 :]
    if kind == "drop":
        return item.number, others
    unlike = () if twins else others
    changed = _moved(item, others, view, rng) if kind == "move" else _revalued(kind, item, unlike, rng)
    return item.number, (*before[:index], changed, *before[index + 1 :])


def new_object(
    others: tuple[SceneObject, ...], view: View, rng: np.random.Generator, twins: bool = False
) -> SceneObject:
    """Draw an object far enough from all others and, without `twins`, unlike them, or raise NoRoomError."""
    number = max((other.number for other in others), default=-1) + 1
    for _ in range(TRIES):
        item = SceneObject(
            number,
            pick(tuple(RADII), rng),
            pick(tuple(COLORS), rng),
            pick(MATERIALS, rng),
            pick(SHAPES, rng),
            *_place(rng),
            round(float(rng.uniform(0, 2 * math.pi)), 4),
        )
        if (twins or _unlike(item, others)) and clear(item, others, view):
            return item
    raise NoRoomError


def _revalued(
    attribute: str, item: SceneObject, others: tuple[SceneObject, ...], rng: np.random.Generator
) -> SceneObject:
    if attribute == "color":
        choices = [replace(item, color=color) for color in COLORS if color != item.color]
    else:
        choices = [replace(item, material=other) for other in MATERIALS if other != item.material]
    choices = [choice for choice in choices if _unlike(choice, others)]
    if not choices:
        raise NoRoomError
    return pick(choices, rng)


def _moved(
    item: SceneObject, others: tuple[SceneObject, ...], view: View, rng: np.random.Generator
) -> SceneObject:
    for _ in range(TRIES):
        x, y = _place(rng)
        changed = replace(item, x=x, y=y)
        if math.hypot(x - item.x, y - item.y) >= FAR and clear(changed, others, view):
            return changed
    raise NoRoomError


def _place(rng: np.random.Generator) -> tuple[float, float]:
    return round(float(rng.uniform(-ARENA, ARENA)), 4), round(float(rng.uniform(-ARENA, ARENA)), 4)


def _unlike(item: SceneObject, others: tuple[SceneObject, ...]) -> bool:
    return all(item.look != other.look for other in others)


RESTARTS = 5000  # maximum number of attempts for a scene; a scene of 10 objects usually needs 60 to 150
SHOWN = 200 / (480 * 320)  # each object must be visible in at least this share of the image's pixels


def generator(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng([seed, number])


def sample(settings: Tabletop, number: int, rng: np.random.Generator) -> Scene:
    """Sample the scene `number`. Raises InputError if no scene is found in RESTARTS attempts."""
    kind = CHANGE_TYPES[number % len(CHANGE_TYPES)]
    count = int(rng.integers(settings.min_objects, settings.max_objects + 1))
    for _ in range(RESTARTS):
        with suppress(NoRoomError):
            return _attempt(settings, number, kind, count, rng)
    raise InputError(
        f"tabletop: no scene of {count} objects in {RESTARTS} tries at {settings.width} x {settings.height} "
        f"pixels; lower max_objects or enlarge the images"
    )


def _attempt(settings: Tabletop, number: int, kind: str, count: int, rng: np.random.Generator) -> Scene:
    """Try once to sample the scene `number`, with `count` objects before the change, or raise NoRoomError."""
    default = View(jittered(CAMERA, 0.5, rng), tuple(jittered(light, 1.0, rng) for light in LIGHTS))
    before: tuple[SceneObject, ...] = ()
    for _ in range(count):
        before += (new_object(before, default, rng, settings.twins),)
    look = LOOKS[settings.look_of(number)]
    default = _seen(default, before, settings, look)
    changed, after = change(kind, before, default, rng, settings.twins)
    semantic = _seen(_other_view(default, settings.viewpoint, rng), after, settings, look)
    nonsemantic = _seen(_other_view(default, settings.viewpoint, rng), before, settings, look)
    scene = Scene(number, kind, changed, before, after, default, semantic, nonsemantic)
    if not grammar.is_describable(scene):
        raise NoRoomError
    return scene


def jittered(point: Point, reach: float, rng: np.random.Generator) -> Point:
    """Return a point moved at random, by at most `reach` along each axis."""
    x, y, z = (round(float(coordinate + rng.uniform(-reach, reach)), 4) for coordinate in point)
    return x, y, z


def _other_view(view: View, viewpoint: str | float, rng: np.random.Generator) -> View:
    """Move camera and lights at random: by up to 1.0 along each axis, or 2.0 for "clevr_change".

    The camera then goes to any side of the table ("extreme"), or by up to `viewpoint` degrees around it.
    """
    camera = jittered(view.camera, 2.0 if viewpoint == "clevr_change" else 1.0, rng)
    if viewpoint not in ("moderate", "clevr_change"):
        side = 0.0 if viewpoint == "extreme" else math.atan2(camera[1], camera[0])
        most = 180.0 if viewpoint == "extreme" else float(viewpoint)
        camera = _at_bearing(camera, side + float(rng.uniform(-math.radians(most), math.radians(most))))
    return View(camera, tuple(jittered(light, 0.5, rng) for light in view.lights))


def _at_bearing(camera: Point, bearing: float) -> Point:
    """Return a camera rotated about the z axis to the angle `bearing`, in radians from the x axis."""
    reach = math.hypot(camera[0], camera[1])
    return round(reach * math.cos(bearing), 4), round(reach * math.sin(bearing), 4), camera[2]


def _seen(view: View, objects: tuple[SceneObject, ...], settings: Tabletop, look: LookConstants) -> View:
    """Return the view with its objects' boxes. Raises NoRoomError if too little of an object is visible."""
    rows = identify(solids(objects, look), view.camera, settings.width, settings.height)
    least = SHOWN * settings.width * settings.height
    masks = [rows == row for row in range(len(objects))]
    if any(np.count_nonzero(mask) < least for mask in masks):
        raise NoRoomError
    return replace(view, boxes=tuple(map(box_of, masks)))
