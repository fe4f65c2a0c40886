"""Draw changes of a scene: an object is added, dropped or moved, or gets another colour or material.

Before and after the change, no two objects of a scene have equal attributes, and any two objects are at least
CLEVR's minimum distances apart.
"""

import math
from dataclasses import replace

import numpy as np

from pipeline.tabletop.scenes import RADII, Thing, View, clear, pick
from pipeline.tabletop.words import COLORS, MATERIALS, SHAPES

CHANGE_TYPES = ("color", "material", "add", "drop", "move")
ARENA = 3.0  # x and y of an object are between -ARENA and ARENA
FAR = 1.2  # minimum distance of a move, in CLEVR's units
TRIES = 50  # tries to place one object; then a new scene is started


class NoRoomError(Exception):
    """Error: no place or attribute was found for an object or a change. The caller starts a new scene."""


def change(
    kind: str, before: tuple[Thing, ...], view: View, rng: np.random.Generator
) -> tuple[int, tuple[Thing, ...]]:
    """Draw a change. Return the changed object's number, and all objects afterwards. Raises NoRoomError."""
    if kind == "add":
        new = new_thing(before, view, rng)
        return new.number, (*before, new)
    at = int(rng.integers(len(before)))
    thing, others = before[at], before[:at] + before[at + 1 :]
    if kind == "drop":
        return thing.number, others
    changed = {"color": _recolored, "material": _remade, "move": _moved}[kind](thing, others, view, rng)
    return thing.number, (*before[:at], changed, *before[at + 1 :])


def new_thing(others: tuple[Thing, ...], view: View, rng: np.random.Generator) -> Thing:
    """Draw an object that is unlike all others and far enough from them. Raises NoRoomError."""
    number = max((other.number for other in others), default=-1) + 1
    for _ in range(TRIES):
        thing = Thing(
            number,
            pick(tuple(RADII), rng),
            pick(tuple(COLORS), rng),
            pick(MATERIALS, rng),
            pick(SHAPES, rng),
            *_place(rng),
            round(float(rng.uniform(0, 2 * math.pi)), 4),
        )
        if _unlike(thing, others) and clear(thing, others, view):
            return thing
    raise NoRoomError


def _recolored(thing: Thing, others: tuple[Thing, ...], view: View, rng: np.random.Generator) -> Thing:
    choices = [replace(thing, color=color) for color in COLORS if color != thing.color]
    choices = [choice for choice in choices if _unlike(choice, others)]
    if not choices:
        raise NoRoomError
    return pick(choices, rng)


def _remade(thing: Thing, others: tuple[Thing, ...], view: View, rng: np.random.Generator) -> Thing:
    changed = replace(thing, material=MATERIALS[1 - MATERIALS.index(thing.material)])
    if not _unlike(changed, others):
        raise NoRoomError
    return changed


def _moved(thing: Thing, others: tuple[Thing, ...], view: View, rng: np.random.Generator) -> Thing:
    for _ in range(TRIES):
        x, y = _place(rng)
        changed = replace(thing, x=x, y=y)
        if math.hypot(x - thing.x, y - thing.y) >= FAR and clear(changed, others, view):
            return changed
    raise NoRoomError


def _place(rng: np.random.Generator) -> tuple[float, float]:
    return round(float(rng.uniform(-ARENA, ARENA)), 4), round(float(rng.uniform(-ARENA, ARENA)), 4)


def _unlike(thing: Thing, others: tuple[Thing, ...]) -> bool:
    return all(thing.look != other.look for other in others)
