"""Edit captions of real datasets word by word, with a small table of antonyms.

The truth of such a caption is not known, so an edit counts as wrong or right by its words only. The first
word of a caption that the table has is replaced.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.scoring.reference_files import has_word

NUMBERS = ("two", "three", "four", "five")


def _both_ways(text: str) -> dict[str, str]:
    """Return word -> other word for a table "one/other, one/other"; several words may be one entry."""
    couples = [(a, b) for a, b in (couple.strip().split("/") for couple in text.split(","))]
    return dict(couples) | {b: a for a, b in couples}


KIND = _both_ways(
    "added/removed, add/remove, adds/removes, adding/removing, appeared/disappeared, appears/disappears, "
    "is missing/is new, is gone/is there, are gone/are there, built/demolished, constructed/destroyed, "
    "more/fewer, increase/decrease, increased/decreased, brighten/darken, brighter/darker, lighter/heavier, "
    "zoom in/zoom out, sharpen/blur, enlarge/shrink, bigger/smaller, opened/closed, arrived/departed"
)
DIRECTION = _both_ways(
    "left/right, top/bottom, upper/lower, front/back, above/below, in front of/behind, north/south, "
    "east/west, before/after, first/last"
)
DENIAL = {
    "there is no": "there is a",
    "there are no": "there are",
    "is no longer": "is still",
    "are no longer": "are still",
    "is not": "is",
    "are not": "are",
    "no": "some",
    "there is": "there is not",
    "there are": "there are not",
    "is": "is not",
    "are": "are not",
    "was": "was not",
    "has": "has not",
    "have": "have not",
}
COLOR = _both_ways("red/blue, white/black, green/yellow, gray/orange, grey/purple, silver/gold, dark/light")
OBJECT = _both_ways(
    "person/car, people/cars, man/woman, truck/bus, van/bicycle, building/tree, buildings/trees, road/river, "
    "roads/lakes, dog/cat, background/foreground, house/bridge, houses/bridges"
)
NUMBER = dict(zip(NUMBERS, (*NUMBERS[1:], NUMBERS[0]), strict=True))
SYNONYM = {
    "gone": "missing",
    "missing": "gone",
    "removed": "taken away",
    "remove": "take away",
    "add": "insert",
    "added": "inserted",
    "appeared": "turned up",
    "disappeared": "vanished",
    "people": "persons",
    "person": "human being",
    "picture": "image",
    "image": "picture",
    "photo": "picture",
    "car": "automobile",
    "cars": "automobiles",
    "building": "edifice",
    "buildings": "edifices",
    "road": "street",
    "big": "large",
    "large": "big",
    "small": "little",
    "difference": "change",
    "brighten": "lighten",
}
BRITISH = {"gray": "grey", "color": "colour", "colors": "colours", "colored": "coloured", "center": "centre"}


@dataclass(frozen=True)
class TextEdit:
    """A way to edit captions.

    `make` returns the new caption, or None if the caption cannot be edited in this way. Its arguments are the
    caption, all captions of the pair, and a caption of another pair.
    """

    name: str
    make: "Make"
    is_wrong: bool


Make = Callable[[str, Sequence[str], str], str | None]


def replaced(table: Mapping[str, str]) -> Make:
    """Return the function that replaces a caption's first key of `table`, the longest one at its place."""
    keys = "|".join(re.escape(key) for key in sorted(table, key=len, reverse=True))
    pattern = re.compile(rf"\b(?:{keys})\b", re.IGNORECASE)

    def make(caption: str, captions: Sequence[str], elsewhere: str) -> str | None:
        match = pattern.search(caption)
        if match is None:
            return None
        new = table[match[0].lower()]
        new = new.capitalize() if match[0][0].isupper() else new
        return f"{caption[: match.start()]}{new}{caption[match.end() :]}"

    return make


def same(caption: str, captions: Sequence[str], elsewhere: str) -> str | None:
    return caption if has_word([caption]) else None


def written(caption: str, captions: Sequence[str], elsewhere: str) -> str | None:
    """Return the caption with a capital letter and a full stop; in lower case without one if it has both."""
    text = caption.strip() if has_word([caption]) else ""
    other = f"{text[:1].upper()}{text[1:].rstrip('.')}."
    return (other if other != text else text[:1].lower() + text[1:].rstrip(".")) if text else None


def another_reference(caption: str, captions: Sequence[str], elsewhere: str) -> str | None:
    return next((text for text in captions if text != caption), None)


def from_elsewhere(caption: str, captions: Sequence[str], elsewhere: str) -> str | None:
    return None if elsewhere in captions else elsewhere


EDITS = (
    TextEdit("kind of change", replaced(KIND), True),
    TextEdit("change denied", replaced(DENIAL), True),
    TextEdit("direction", replaced(DIRECTION), True),
    TextEdit("colour", replaced(COLOR), True),
    TextEdit("another object", replaced(OBJECT), True),
    TextEdit("number", replaced(NUMBER), True),
    TextEdit("caption of another pair", from_elsewhere, True),
    TextEdit("same words", same, False),
    TextEdit("capital and full stop", written, False),
    TextEdit("British spelling", replaced(BRITISH), False),
    TextEdit("synonyms", replaced(SYNONYM), False),
    TextEdit("another reference", another_reference, False),
)
