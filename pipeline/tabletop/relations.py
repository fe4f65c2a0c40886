"""Where a thing lies from another one on the table, as a camera sees them, and how the grammar says it.

They stand apart from scenes and grammar so that judging a caption needs neither numpy nor ray tracer.
"""

import math
from typing import Protocol

from pipeline.tabletop.words import BEHIND, FRONT, LEFT, RIGHT

NEAREST = 0.2  # CLEVR: a thing less than this aside or behind another is neither
Point = tuple[float, float, float]


class Place(Protocol):
    """The middle of a thing on the table, in CLEVR's units."""

    @property
    def x(self) -> float: ...
    @property
    def y(self) -> float: ...


def offsets(thing: Place, other: Place, camera: Point) -> tuple[float, float]:
    """How far `thing` lies to the right of and behind `other` on the table, as `camera` sees them."""
    away = math.hypot(camera[0], camera[1])
    ahead_x, ahead_y = -camera[0] / away, -camera[1] / away  # the camera looks at the origin
    dx, dy = thing.x - other.x, thing.y - other.y
    return ahead_y * dx - ahead_x * dy, ahead_x * dx + ahead_y * dy


def relations(thing: Place, other: Place, camera: Point) -> list[tuple[str, ...]]:
    """What is true of a thing's place seen from another's, each in its several wordings."""
    right, behind = offsets(thing, other, camera)
    found: list[tuple[str, ...]] = []
    if abs(right) >= NEAREST:
        found.append(RIGHT if right > 0 else LEFT)
    if abs(behind) >= NEAREST:
        found.append(BEHIND if behind > 0 else FRONT)
    return found
