"""Words and spatial relations in tabletop's captions, for writing captions and for parsing them.

This module is separate from grammar.py, so that parsing captions needs neither NumPy nor the ray tracer.
"""

import math

from pipeline.datasets.schema import Placed

# sRGB values of CLEVR
COLORS = {
    "gray": (87, 87, 87),
    "red": (173, 35, 35),
    "blue": (42, 75, 215),
    "green": (29, 105, 20),
    "brown": (129, 74, 25),
    "purple": (129, 38, 192),
    "cyan": (41, 208, 208),
    "yellow": (255, 238, 51),
}

MATERIALS = ("rubber", "metal")
SHAPES = ("sphere", "cube", "cylinder")  # in the order of the kinds in geometry.py
SIZES = ("large", "small")

SYNONYMS: dict[str, dict[str, tuple[str, ...]]] = {
    "size": {"large": ("large", "big"), "small": ("small", "tiny")},
    "color": {color: (color,) for color in COLORS},
    "material": {"metal": ("metal", "metallic", "shiny"), "rubber": ("rubber", "matte")},
    "shape": {"cube": ("cube", "block"), "sphere": ("sphere", "ball"), "cylinder": ("cylinder",)},
}
"""The words of each attribute's values: attribute -> value -> words.

With a given seed, negatives depend on the order of the values and words.
"""
WORDS = {value: words for values in SYNONYMS.values() for value, words in values.items()}
MEANINGS = {
    attribute: {word: value for value, words in values.items() for word in words}
    for attribute, values in SYNONYMS.items()
}
"""The value that each word means: attribute -> word -> value."""
ANY_SHAPE = ("thing", "object")
NOUNS = frozenset((*MEANINGS["shape"], *ANY_SHAPE))
RIGHT = ("right of", "to the right of", "on the right side of")
LEFT = ("left of", "to the left of", "on the left side of")
FRONT = ("in front of",)
BEHIND = ("behind",)

VERBS = {
    "color": ("changed to", "turned", "became"),
    "material": ("turned", "became"),
    "add": ("has been added", "has appeared", "has been newly placed"),
    "drop": ("has disappeared", "is missing", "is gone", "is no longer there"),
    "move": ("changed its location", "is in a different location", "has been moved"),
}
NEW_VALUE = {"color": "color", "material": "texture"}
"""The kind of change in the words of schema.py, for an attribute with a new value: attribute -> kind."""
CHANGED = {kind: attribute for attribute, kind in NEW_VALUE.items()}
"""The attribute with a new value: kind of change -> attribute."""
VERB_PHRASES = {
    f"{verb} {word}".strip(): NEW_VALUE.get(kind, kind)
    for kind, verbs in VERBS.items()
    for verb in verbs
    for word in MEANINGS.get(kind, [""])
}
"""Kinds of change in the words of schema.py: verb phrase (such as "turned shiny") -> kind."""
CUES = {
    "add": {"added", "appeared", "placed"},
    "drop": {"disappeared", "missing", "gone", "longer", "removed"},
    "move": {"location", "moved"},
}
"""Words that indicate a kind of change: kind -> words.

They are for captions of any dataset of coloured solids, not only of tabletop.
"""
NO_CHANGE = (
    "no change was made",
    "there is no change",
    "the two scenes seem identical",
    "the scene is the same as before",
    "the scene remains the same",
    "nothing has changed",
    "nothing was modified",
    "no change has occurred",
    "there is no difference",
)

NEAREST = 0.2  # CLEVR's least offset: with a smaller one, two objects have no relation along this axis
Point = tuple[float, float, float]


def offsets(item: Placed, other: Placed, camera: Point) -> tuple[float, float]:
    """Return how far `item` is to the right of `other`, and how far behind it, as seen from `camera`."""
    away = math.hypot(camera[0], camera[1])
    ahead_x, ahead_y = -camera[0] / away, -camera[1] / away  # the camera looks at the origin
    dx, dy = item.x - other.x, item.y - other.y
    return ahead_y * dx - ahead_x * dy, ahead_x * dx + ahead_y * dy


def relations(item: Placed, other: Placed, camera: Point) -> list[tuple[str, ...]]:
    """Return the relations of `item` to `other` seen from `camera`, tuples of phrases of the same meaning.

    The objects must be at least NEAREST apart sideways (RIGHT or LEFT), or in depth (BEHIND or FRONT).
    """
    right, behind = offsets(item, other, camera)
    wordings: list[tuple[str, ...]] = []
    if abs(right) >= NEAREST:
        wordings.append(RIGHT if right > 0 else LEFT)
    if abs(behind) >= NEAREST:
        wordings.append(BEHIND if behind > 0 else FRONT)
    return wordings
