"""What a description of two birds claims of which of them, and whether it contradicts others.

Its words that can take each other's place are colours, parts, forms and patterns.

A claim is read from the order of the words alone: adjectives belong to the part that follows them in their
clause, else to the one before ("its beak is red"), else to the whole bird. What is denied is no claim.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
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
TOKEN = re.compile(r"[a-z]+[12]?|[.,;]", re.IGNORECASE)
BREAKS = {".", ",", ";", "while", "but", "and", "which", "than", "with", "whereas", "compared"}
DENIED = {"no", "not", "without", "lacks", "lack", "similar", "same", "neither", "nor", "t"}  # t: doesn't
ANIMALS = ("animal1", "animal2")
WHOLE = -1  # in the place of a part

Key = tuple[str, int, str]
"""The animal, the part, and the class of what is said of it."""
Claims = Mapping[Key, frozenset[int]]


def of_captions(captions: Iterable[str]) -> Claims:
    """What the captions claim, together."""
    found: dict[Key, frozenset[int]] = {}
    for caption in captions:
        for key, value in _claims(caption):
            found[key] = found.get(key, frozenset()) | {value}
    return found


def contradicts(candidate: str, truth: Claims) -> bool:
    """Whether the candidate claims of a bird's part what the truth claims otherwise."""
    claims = of_captions([candidate])
    return any(key in truth and not values & truth[key] for key, values in claims.items())


def _claims(caption: str) -> Iterator[tuple[Key, int]]:
    animals: tuple[str, ...] = ("",)  # of a caption without any: CUB's one bird
    for clause in _clauses(caption):
        named = tuple(name for name in ANIMALS if name in clause)
        animals = ANIMALS if "both" in clause else named[:1] or animals
        if not DENIED & set(clause):
            yield from _of_clause(clause, animals)


def _clauses(caption: str) -> Iterator[list[str]]:
    clause: list[str] = []
    for word in TOKEN.findall(caption.lower()):
        if word in BREAKS:
            yield clause
            clause = []
        else:
            clause.append(word)
    yield clause


def _of_clause(clause: list[str], animals: tuple[str, ...]) -> Iterator[tuple[Key, int]]:
    part, waiting = WHOLE, []
    for word in clause:
        if word not in MEANING:
            continue
        kind, ending, value = MEANING[word]
        if kind != "part":
            # "larger" is not "large": it compares
            waiting.append((f"{kind}-{ending}" if ending == "er" else kind, value))
            continue
        part = value
        yield from _said(animals, part, waiting)
        waiting = []
    yield from _said(animals, part, waiting)


def _said(animals: tuple[str, ...], part: int, waiting: list[tuple[str, int]]) -> Iterator[tuple[Key, int]]:
    for kind, value in waiting:
        for animal in animals:
            yield (animal, part, kind), value
        if kind.endswith("-er") and len(animals) == 1 and animals[0] in ANIMALS:
            # the other one has less of it, and there are two values
            yield (ANIMALS[1 - ANIMALS.index(animals[0])], part, kind), 1 - value
