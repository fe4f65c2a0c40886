"""Find the objects of an image that fit a noun phrase: its attributes, relations, sides and ranks.

Relations compare positions on the table as the image's camera sees them (pipeline/tabletop/words.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

from pipeline.datasets.schema import Placed
from pipeline.free_english.phrase import Phrase, Place
from pipeline.tabletop import words
from pipeline.tabletop.words import NEAREST, Point, offsets

NEAR = 2.5  # CLEVR's units: the greatest distance of the centres of two objects next to each other
CENTRAL = 1.5  # the greatest offset of an object in the middle of the table, or between two others
AXES = {"left": (0, -1), "right": (0, 1), "front": (1, -1), "behind": (1, 1)}
"""Side -> index of its component in the offsets (0 right, 1 behind), and the sign on this side."""


@dataclass(frozen=True)
class Sight:
    """The objects of an image, and the position of the image's camera."""

    objects: tuple[Placed, ...]
    camera: Point


CENTRE = Placed(-1, "", "", "", "", 0.0, 0.0)
"""The centre of the table, at which cameras look."""


def matching(phrase: Phrase, sight: Sight) -> list[Placed]:
    """Return the objects that fit a noun phrase.

    Sides and ranks ("the left cube") compare only the objects that fit the rest of the phrase.
    """
    fitting = [each for each in sight.objects if looks(each, phrase)]
    relative = [place for place in phrase.places if place.relation not in ("side", "rank")]
    fitting = [each for each in fitting if all(holds(place, each, [], sight) for place in relative)]
    others = [place for place in phrase.places if place not in relative]
    return [each for each in fitting if all(holds(place, each, fitting, sight) for place in others)]


def looks(item: Placed, phrase: Phrase) -> bool:
    """Return True if the object has the attributes of the phrase."""
    return all(getattr(item, name) == value for name, value in phrase.look)


def holds(place: Place, item: Placed, candidates: Sequence[Placed], sight: Sight) -> bool:
    """Return True if `item` is at a place.

    `candidates` are the objects with which `item` is compared for a side ("left") or a rank ("leftmost").
    """
    if place.relation == "seen":
        return True
    if place.relation == "count":
        return len(matching(place.others[0], sight)) == place.rank
    if place.relation == "side":
        return all(_on_side(side, item, candidates, sight.camera) for side in place.side.split())
    if place.relation == "rank":
        if len(candidates) == 1 and place.rank > 1:  # "the red cube, the second from the left": of all cubes
            candidates = [each for each in sight.objects if each.shape == item.shape]
        return _ranked(place, item, candidates, sight.camera)
    others = [
        [each for each in matching(other, sight) if each.number != item.number] for other in place.others
    ]
    if place.relation == "between":
        return len(others) == 2 and any(_between(item, a, b) for a in others[0] for b in others[1])
    if place.relation == "near":
        return any(distance(item, other) <= NEAR for other in others[0])
    return place.relation in AXES and any(
        beside(place.relation, item, other, sight.camera) for other in others[0]
    )


def beside(side: str, item: words.Place, other: words.Place, camera: Point) -> bool:
    """Return True if `item` is on this side of `other`, as the camera sees them."""
    axis, sign = AXES[side]
    return sign * offsets(item, other, camera)[axis] >= NEAREST


def distance(one: Placed, other: Placed) -> float:
    """Return the distance between the centres of two objects."""
    return hypot(one.x - other.x, one.y - other.y)


def _on_side(side: str, item: Placed, candidates: Sequence[Placed], camera: Point) -> bool:
    """Return True if `item` is on this side, as the camera sees it.

    If there is exactly one other candidate, `item` is compared with it, else with the table's centre. With
    two other candidates, "center" means between them.
    """
    others = [each for each in candidates if each.number != item.number]
    if side == "center" and len(others) == 2:
        one, other = sorted(others, key=lambda each: offsets(each, CENTRE, camera)[0])
        return beside("right", item, one, camera) and beside("left", item, other, camera)
    if side == "center":
        return max(map(abs, offsets(item, CENTRE, camera))) <= CENTRAL
    return beside(side, item, others[0] if len(others) == 1 else CENTRE, camera)


def _ranked(place: Place, item: Placed, candidates: Sequence[Placed], camera: Point) -> bool:
    """Return True if `item` has the rank `place.rank` among `candidates`, counted from `place.side`."""
    if place.side not in AXES:
        return False
    if len(candidates) == 1:
        return place.rank == 1 and _on_side(place.side, item, candidates, camera)
    axis, sign = AXES[place.side]
    order = sorted(candidates, key=lambda each: -sign * offsets(each, CENTRE, camera)[axis])
    return [each.number for each in order][place.rank - 1 : place.rank] == [item.number]


def _between(item: Placed, one: Placed, other: Placed) -> bool:
    """Return True if `item` is near the line from `one` to `other`, and not beyond the line's ends."""
    dx, dy = other.x - one.x, other.y - one.y
    length = hypot(dx, dy)
    if one.number == other.number or not length:
        return False
    along = ((item.x - one.x) * dx + (item.y - one.y) * dy) / length
    aside = abs((item.x - one.x) * dy - (item.y - one.y) * dx) / length
    return NEAREST <= along <= length - NEAREST and aside <= CENTRAL
