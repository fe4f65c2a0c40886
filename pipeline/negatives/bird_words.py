"""The words of descriptions of birds that can take each other's place: colours, parts, forms, patterns."""

from typing import NamedTuple


class Meaning(NamedTuple):
    """A word's class, its ending, and which of the class's values it names."""

    kind: str
    ending: str
    value: int


CLASSES: dict[str, dict[str, str]] = {
    "color": {
        "": "black, white, gray grey silver, brown tan beige, red, orange, yellow golden, green, blue, "
        "purple, pink",
        "ish": "blackish, whitish, grayish greyish, brownish, reddish, orangish, yellowish, greenish, "
        "bluish, purplish, pinkish",
    },
    "part": {
        "": "beak bill, neck throat nape, breast chest belly abdomen, head crown cheek face cap, back, wing, "
        "tail, leg foot, eye",
        "s": "beaks bills, necks throats, breasts chests bellies, heads crowns cheeks faces, backs, "
        "wings, tails, legs feet, eyes",
    },
    "pattern": {
        "": "spot speckle, stripe streak bar, patch",
        "s": "spots speckles, stripes streaks bars, patches",
        "ed": "spotted speckled mottled, striped streaked barred, patched",
        "ing": "spotting speckling mottling, striping streaking barring, patching",
    },
    "size": {"": "large big, small tiny", "er": "larger bigger, smaller"},
    "length": {"": "long, short", "er": "longer, shorter"},
    "build": {
        "": "thin slender skinny, thick round plump stocky fat",
        "er": "thinner skinnier, thicker rounder plumper stockier fatter",
    },
    "curve": {"": "pointed, curved hooked", "er": "straighter, curvier"},
    "shade": {"": "dark, light pale bright", "er": "darker, lighter paler brighter"},
}
"""Class -> ending -> its values, one after the other with all words for each.

Two words are of two values where one rules out the other as far as that can be: beak and bill are one, and so
are head and crown, for a bird with a white crown is white of head. A tuft or crest is no part here, for it is
on one; feathers are everywhere.
"""
MEANING = {
    word: Meaning(kind, ending, number)
    for kind, endings in CLASSES.items()
    for ending, values in endings.items()
    for number, words in enumerate(values.split(", "))
    for word in words.split()
}
SIBLINGS = {
    own: [word for word, meaning in MEANING.items() if meaning[:2] == own]
    for own in {meaning[:2] for meaning in MEANING.values()}
}
"""Class and ending -> the words that can take each other's place."""
