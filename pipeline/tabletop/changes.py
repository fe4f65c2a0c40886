"""Draw changes of a scene: an object is added, dropped or moved, or gets another colour or material.

Before and after the change, no two objects of a scene have equal attributes, and any two objects are at least
CLEVR's minimum distances apart.
"""

import math
from dataclasses import replace

import numpy as np

from pipeline.tabletop.scenes import RADII, SceneObject, View, clear, pick
from pipeline.tabletop.words import COLORS, MATERIALS, SHAPES

CHANGE_TYPES = ("color", "material", "add", "drop", "move")
ARENA = 3.0  # x and y of an object are between -ARENA and ARENA
FAR = 1.2  # minimum distance of a move, in CLEVR's units
TRIES = 50  # tries to place one object; then a new scene is started


class NoRoomError(Exception):
    """Error: no place or attribute was found for an object or a change. The caller starts a new scene."""


def change(
    kind: str, before: tuple[SceneObject, ...], view: View, rng: np.random.Generator
) -> tuple[int, tuple[SceneObject, ...]]:
    """Draw a change. Return the changed object's number, and all objects afterwards. Raises NoRoomError."""
    if kind == "add":
        new = new_object(before, view, rng)
        return new.number, (*before, new)
    index = int(rng.integers(len(before)))
    item, others = before[index], before[:index] + before[index + 1 :]
    if kind == "drop":
        return item.number, others
    changed = _moved(item, others, view, rng) if kind == "move" else _revalued(kind, item, others, rng)
    return item.number, (*before[:index], changed, *before[index + 1 :])


def new_object(others: tuple[SceneObject, ...], view: View, rng: np.random.Generator) -> SceneObject:
    """Draw an object that is unlike all others and far enough from them. Raises NoRoomError."""
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
        if _unlike(item, others) and clear(item, others, view):
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
