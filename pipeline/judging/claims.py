"""Noun phrases, places and claims of a text, independent of its wording, which all readers return."""

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.tabletop.words import NEW_VALUE

ALL = 99  # count of "all the cubes"
Values = tuple[tuple[str, str], ...]
"""Pairs (attribute, value), in the order of the words."""


@dataclass(frozen=True)
class Place:
    """Place of an object in a text, or another condition on the object. `relation` names the kind:

    - left, right, front, behind, near, between, toward, away, past: relation to the objects `others`;
    - side: the object is on the side `side` of the table, as in "the cube on the left";
    - rank: the object is number `rank`, counted from `side`. "The second from the left" has the rank 2;
    - seen: the object is visible in the image `when`;
    - count: `rank` objects of the image fit `others`. For "a fourth cube", these are 4 cubes.
    """

    relation: str
    others: tuple["Phrase", ...] = ()
    side: str = ""  # left, right, front, behind, center, or two of them
    rank: int = 0
    when: str = ""  # before, after, or empty: the image that the sentence describes


@dataclass(frozen=True)
class Phrase:
    """A noun phrase: the attributes and places of an object, and how many objects are meant.

    "Four cubes" has the count 2 (several) and the number 4; without a number, `number` is 0. `new` is
    True if the words call the object new, as in "a new cube" or "a fourth cube".
    """

    look: Values = ()
    places: tuple[Place, ...] = ()
    count: int = 1  # 2: several; ALL: all
    number: int = 0  # the exact number, if it is said
    new: bool = False
    fewer: bool = False  # "one fewer cube"
    indefinite: bool = False
    one: bool = False  # "the red one": the shape is that of an earlier object
    pronoun: bool = False


UNREADABLE, REST, SAME, EXISTS = "unreadable", "rest", "same", "exists"
BECOMES, STATE, SIT, OTHER = "becomes", "state", "sit", "other"
AFTER = ("after", "now")


@dataclass(frozen=True)
class Claim:
    """One claim of a text.

    `kind` is a kind of change of the schema (add, drop, move, change, none), or one of:
    - rest: all other objects are as before;
    - same: the subject is as before;
    - exists: an image shows the subject;
    - becomes: the subject has another colour or material;
    - state: the subject has an attribute ("is red");
    - sit: the subject is at a place ("is behind the ball");
    - other: a change that no dataset has, such as another size;
    - unreadable: no rule fits the words.

    `when` is the image that the claim describes: before, after, now (the word "now", so the second
    image), or both. It is empty if the words name no image.
    """

    kind: str
    subject: Phrase | None = None
    negated: bool = False
    old: Values = ()
    new: Values = ()
    is_full: bool = False  # `new` describes the object ("a red metal ball"), not only the changed attribute
    aspect: str = ""  # color, material or position, if the text names what changed
    source: tuple[Place, ...] = ()  # places before and after a move
    target: tuple[Place, ...] = ()
    directions: tuple[str, ...] = ()
    departed: bool = False  # the object is no longer at `source`
    when: str = ""  # before, after, both, now, or empty
    text: str = ""  # the claim's words; in free English, in lower case and without contractions
    # letter of verdicts.FAULTS -> the words that are false if the claim has this fault; () if unknown
    parts: tuple[tuple[str, str], ...] = ()

    def said(self, faults: Iterable[str]) -> tuple[str, ...]:
        """Return the words of the claim that have these faults; the whole claim if they are unknown."""
        return tuple(words for letter, words in self.parts if letter in faults) or (self.text,)

    @property
    def changes(self) -> set[str]:
        """The kinds of change that the claim states; "other" for one that no dataset has."""
        if self.kind == UNREADABLE:
            return set()
        if self.kind == SIT:
            return {"move"}
        if self.kind not in (BECOMES, STATE):
            return {self.kind}
        attributes = [name for name, _ in (self.new or self.old)] or [self.aspect]
        kinds = {NEW_VALUE[name] for name in attributes if name in NEW_VALUE}
        is_full = self.is_full or self.kind == STATE
        return kinds if is_full or len(kinds) == len({*attributes}) == 1 else {OTHER}
