"""Find the claims in a description of birds, and the contradictions between descriptions.

A claim gives a value, for example a colour, to a part of a bird. The words of a class, such as the colours,
can replace each other. The parser uses only the order of words: an adjective belongs to the next part in its
clause. If no part follows, the adjective belongs to the previous part ("its beak is red"). In a clause
without parts, it belongs to the whole bird. Clauses with a negation are ignored.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple


class Meaning(NamedTuple):
    """Entry of the lexicon for a word. For example, "blackish" has the class "color" and the ending "ish"."""

    kind: str  # the class: a key of CLASSES
    ending: str
    value: int  # position of the value within its class; synonyms have the same value


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
"""All known words: class -> ending -> text. A text lists values, separated by commas.

The words of one value are synonyms, separated by spaces. Two words have different values only if they exclude
each other. Thus beak and bill are one value. Head and crown are one value too, because a bird with a white
crown has a white head. Tufts, crests and feathers are not parts, because they are on other parts.
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
"""Words that can replace each other: (class, ending) -> words."""
TOKEN = re.compile(r"[a-z]+[12]?|[.,;]", re.IGNORECASE)
BREAKS = {".", ",", ";", "while", "but", "and", "which", "than", "with", "whereas", "compared"}
# words whose clause is ignored; "t" is the end of "doesn't"
DENIED = {"no", "not", "without", "lacks", "lack", "similar", "same", "neither", "nor", "t"}
ANIMALS = ("animal1", "animal2")
WHOLE = -1  # number of the whole bird, in place of a part's number

Key = tuple[str, int, str]
"""Animal, part, and class of a claimed value."""
Claims = Mapping[Key, frozenset[int]]
"""Claims: (animal, part, class) -> values that are claimed."""


def of_captions(captions: Iterable[str]) -> Claims:
    """Return the claims that several captions make together."""
    found: dict[Key, frozenset[int]] = {}
    for caption in captions:
        for key, value in _claims(caption):
            found[key] = found.get(key, frozenset()) | {value}
    return found


def contradicts(candidate: str, truth: Claims) -> bool:
    """Return True if the caption `candidate` contradicts the claims `truth`.

    There is a contradiction if both name values of one class for one part of a bird, for example colours of
    the back, but have no value in common.
    """
    claims = of_captions([candidate])
    return any(key in truth and not values & truth[key] for key, values in claims.items())


def _claims(caption: str) -> Iterator[tuple[Key, int]]:
    animals: tuple[str, ...] = ("",)  # CUB's captions describe one bird, and do not name it
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
            # comparatives form a separate class, because "larger" does not mean "large"
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
            # comparatives have two values: if one animal is larger, the other animal is smaller
            yield (ANIMALS[1 - ANIMALS.index(animals[0])], part, kind), 1 - value
