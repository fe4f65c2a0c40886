"""Find the objects of an image that fit a noun phrase: its attributes, relations, sides and ranks.

Relations compare positions on the table as the image's camera sees them (pipeline/tabletop/words.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

from pipeline.datasets.schema import Placed
from pipeline.judging.claims import Phrase, Place
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
    """Return the objects that fit a phrase; "the left cube" compares those that fit its rest."""
    fitting = [item for item in sight.objects if looks(item, phrase)]
    other_places = [place for place in phrase.places if place.relation not in ("side", "rank")]
    fitting = [item for item in fitting if all(holds(place, item, [], sight) for place in other_places)]
    compared_places = [place for place in phrase.places if place not in other_places]
    return [item for item in fitting if all(holds(place, item, fitting, sight) for place in compared_places)]


def looks(item: Placed, phrase: Phrase) -> bool:
    return all(getattr(item, name) == value for name, value in phrase.look)


def holds(place: Place, item: Placed, candidates: Sequence[Placed], sight: Sight) -> bool:
    """Return True if `item`, an object of an image, fulfils the condition `place` of a noun phrase.

    `candidates` are the objects with which `item` is compared for a side ("left") or a rank
    ("leftmost"). `sight` has all objects of the image, and the camera position.
    """
    if place.relation == "seen":
        return True
    if place.relation == "count":
        return len(matching(place.others[0], sight)) == place.rank
    if place.relation == "side":
        return all(_on_side(side, item, candidates, sight.camera) for side in place.side.split())
    if place.relation == "rank":
        if len(candidates) == 1 and place.rank > 1:  # "the red cube, the second from the left": of all cubes
            candidates = [candidate for candidate in sight.objects if candidate.shape == item.shape]
        return _ranked(place, item, candidates, sight.camera)
    landmarks = [
        [other for other in matching(phrase, sight) if other.number != item.number] for phrase in place.others
    ]
    if place.relation == "between":
        return len(landmarks) == 2 and any(_between(item, a, b) for a in landmarks[0] for b in landmarks[1])
    if place.relation == "near":
        return any(distance(item, landmark) <= NEAR for landmark in landmarks[0])
    return place.relation in AXES and any(
        beside(place.relation, item, landmark, sight.camera) for landmark in landmarks[0]
    )


def beside(side: str, item: Placed, other: Placed, camera: Point) -> bool:
    """Return True if `item` is on the side `side` of `other`, as the camera sees them."""
    axis, sign = AXES[side]
    return sign * offsets(item, other, camera)[axis] >= NEAREST


def distance(first: Placed, second: Placed) -> float:
    return hypot(first.x - second.x, first.y - second.y)


def _on_side(side: str, item: Placed, candidates: Sequence[Placed], camera: Point) -> bool:
    """Return True if `item` is on the side `side`, such as "left", as the camera sees it.

    `item` is compared with the other candidate if there is exactly one, otherwise with the table's
    centre. The side "center" is different: with two other candidates, it means between them. Otherwise,
    it means near the table's centre.
    """
    others = [candidate for candidate in candidates if candidate.number != item.number]
    if side == "center" and len(others) == 2:
        left_item, right_item = sorted(others, key=lambda candidate: offsets(candidate, CENTRE, camera)[0])
        return beside("right", item, left_item, camera) and beside("left", item, right_item, camera)
    if side == "center":
        return max(map(abs, offsets(item, CENTRE, camera))) <= CENTRAL
    return beside(side, item, others[0] if len(others) == 1 else CENTRE, camera)


def _ranked(place: Place, item: Placed, candidates: Sequence[Placed], camera: Point) -> bool:
    """Return True if `item` has the rank in `place`, as in "the second from the left".

    In this example, `place.rank` is 2 and `place.side` is "left". The candidates are counted from this
    side, as the camera sees them.
    """
    if place.side not in AXES:
        return False
    if len(candidates) == 1:
        return place.rank == 1 and _on_side(place.side, item, candidates, camera)
    axis, sign = AXES[place.side]
    order = sorted(candidates, key=lambda candidate: -sign * offsets(candidate, CENTRE, camera)[axis])
    return [candidate.number for candidate in order][place.rank - 1 : place.rank] == [item.number]


def _between(item: Placed, first: Placed, second: Placed) -> bool:
    """Return True if `item` is near the line from `first` to `second`, and not beyond the line's ends."""
    dx, dy = second.x - first.x, second.y - first.y
    length = hypot(dx, dy)
    if first.number == second.number or not length:
        return False
    along = ((item.x - first.x) * dx + (item.y - first.y) * dy) / length
    aside = abs((item.x - first.x) * dy - (item.y - first.y) * dx) / length
    return NEAREST <= along <= length - NEAREST and aside <= CENTRAL
