"""What a description of two birds claims of which of them, and whether it contradicts others.

A claim is read from the order of the words alone: adjectives belong to the part that follows them in their
clause, else to the one before ("its beak is red"), else to the whole bird. What is denied is no claim.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from pipeline.negatives.bird_words import MEANING

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
