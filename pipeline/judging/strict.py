"""Read captions of coloured solids (CLEVR-Change, CLEVR-DC, tabletop) strictly: one sentence of a fixed form.

A sentence names a kind of change, a subject ("the small red ball"), perhaps a landmark ("that is behind the
metal cube") and perhaps a new value ("turned blue").

A caption that is judged by a scene must be a sentence of tabletop's grammar (GRAMMAR): `the [size] [color]
[material] noun`, optionally `that is RELATION the [size] [color] [material] noun`, and a verb phrase.
Datasets without scenes have other verbs, so their captions may have any words between the parts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.judging import references
from pipeline.judging.claims import BECOMES, UNREADABLE, Claim, Phrase, Place, Values
from pipeline.judging.no_change import says_no_change, sentences_of
from pipeline.judging.scene import judged_by_scene
from pipeline.judging.verdicts import (
    ALSO,
    ATTRIBUTES,
    INVENTED,
    KIND,
    RELATION,
    UNPARSED,
    VALUE,
    Verdict,
    verdict,
)
from pipeline.tabletop import words
from pipeline.tabletop.words import CUES, MEANINGS, NEW_VALUE, NOUNS, VERB_PHRASES
from pipeline.text.caption_text import one_line

MEANING = {word: (name, value) for name, values in MEANINGS.items() for word, value in values.items()}
"""Word -> attribute and value."""
ARTICLES = {"the", "a", "an", "another", "other"}  # first words of a noun phrase
SIDES = {
    wording: side
    for side, wordings in {
        "right": words.RIGHT,
        "left": words.LEFT,
        "front": words.FRONT,
        "behind": words.BEHIND,
    }.items()
    for wording in wordings
}
"""Wording of a spatial relation -> the relation of a claims.Place."""


def _any(options: Iterable[str]) -> str:
    return f"(?:{'|'.join(sorted(options))})"


_NOUN_PHRASE = "the" + "".join(f"(?: {_any(MEANINGS[name])})?" for name in ("size", "color", "material"))
_NOUN_PHRASE += f" {_any(NOUNS)}"
GRAMMAR = re.compile(
    f"{_NOUN_PHRASE}(?: that is {_any(SIDES)} {_NOUN_PHRASE})? {_any(VERB_PHRASES)}",
    re.ASCII | re.IGNORECASE,
)
"""The sentences about a change in tabletop's grammar."""


@dataclass(frozen=True)
class Sentence:
    """The words of a caption, and the positions of its parts."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, caption: str) -> "Sentence":
        """Split a caption into words. Only the letters a to z belong to words."""
        return cls(tuple(re.findall(r"[a-zA-Z]+", caption)))

    @cached_property
    def lower(self) -> tuple[str, ...]:
        """The words in lower case."""
        return tuple(word.lower() for word in self.words)

    @cached_property
    def nouns(self) -> list[int]:
        """Indices, in `words`, of nouns for objects ("ball"). A sentence without one reports no change."""
        return [position for position, word in enumerate(self.lower) if word in NOUNS]

    @cached_property
    def subject(self) -> range:
        return self._phrase(0, self.nouns[0]) if self.nouns else range(0)

    @cached_property
    def landmark(self) -> range:
        """Positions of the second noun phrase, as in "behind the red cube", or an empty range."""
        return self._phrase(self.subject.stop, self.nouns[1]) if len(self.nouns) > 1 else range(0)

    @property
    def relation(self) -> range:
        """Positions of the words between "that is" and the landmark's article ("behind")."""
        return range(self.subject.stop + 2, self.landmark.start - 1)

    @property
    def ending(self) -> range:
        """Positions of the words after the last noun ("turned blue")."""
        return range(self.nouns[-1] + 1 if self.nouns else len(self.words), len(self.words))

    @cached_property
    def value(self) -> int | None:
        """Index of the new colour or material, after the last noun; None in another change."""
        values = [position for position in self.ending if self._meaning(position)[0] in NEW_VALUE]
        return values[-1] if values and self._verb() is None else None

    @cached_property
    def attributes(self) -> list[int]:
        return self._attributes(self.subject)

    @cached_property
    def claim(self) -> Claim:
        """The claim of the sentence. It is unreadable if the sentence names no kind of change."""
        subject = Phrase(self._look(self.subject), self._places()) if self.subject else None
        new = () if self.value is None else (self._meaning(self.value),)
        return Claim(self._kind(), subject, new=new, text=" ".join(self.words), parts=self._parts())

    def text(self, part: range) -> str:
        """Return the words at these positions."""
        return " ".join(self.words[part.start : part.stop])

    def _parts(self) -> tuple[tuple[str, str], ...]:
        subject = range(self.subject.start - 1, max(self.subject.stop, self.landmark.stop))
        value = "" if self.value is None else self.words[self.value]
        is_unique = value not in self.words[subject.start : subject.stop]
        return (
            *((ATTRIBUTES[self._meaning(place)[0]], self.words[place]) for place in self.attributes),
            (RELATION, self.text(range(self.subject.stop, self.landmark.stop))),
            (KIND, self.text(self.ending)),
            (INVENTED, self.text(self.ending)),
            (VALUE, value if is_unique else self.text(self.ending)),
            (ALSO, self.text(subject)),
        )

    def _places(self) -> tuple[Place, ...]:
        side = SIDES.get(self.text(self.relation).lower())
        return (Place(side, (Phrase(self._look(self.landmark)),)),) if side else ()

    def _look(self, part: range) -> Values:
        return tuple(self._meaning(position) for position in self._attributes(part))

    def _attributes(self, part: range) -> list[int]:
        return [position for position in part if self.lower[position] in MEANING]

    def _phrase(self, start: int, noun: int) -> range:
        articles = [position for position in range(start, noun) if self.lower[position] in ARTICLES]
        return range(articles[-1] + 1, noun + 1) if articles else range(0)

    def _meaning(self, position: int) -> tuple[str, str]:
        return MEANING.get(self.lower[position], ("", ""))

    def _verb(self) -> str | None:
        return next((kind for kind, verbs in CUES.items() if verbs & {*self.lower}), None)

    def _kind(self) -> str:
        if not self.nouns:
            return NO_CHANGE
        return self._verb() or (UNREADABLE if self.value is None else BECOMES)


@lru_cache(maxsize=10_000)  # a reward judges the same captions again and again
def read(caption: str) -> Claim:
    """Return the claim of a caption in tabletop's grammar: a change, no change, or an unreadable claim."""
    text = one_line(caption).rstrip(" .")
    if GRAMMAR.fullmatch(text):
        return Sentence.of(text).claim
    if not says_no_change(text):
        return Claim(UNREADABLE, text=caption)
    look = [MEANING[word] for word in re.findall(r"\w+", text.lower()) if word in MEANING]
    return Claim(NO_CHANGE, Phrase(tuple(look)), text=caption)


def judge(caption: str, pair: Pair) -> Verdict | None:
    """Check a caption in tabletop's grammar against the pair's scene; None if the scene is unknown.

    A caption in other words is false. Raises InputError for a pair whose scene lacks the changed object.
    """
    judged = judged_by_scene([read(caption)], pair)
    return None if judged is None else verdict(caption, judged)


def references_of(pair: Pair) -> references.JointClaims:
    """Return what the references of a pair say together. `kinds` is empty if they name no kind of change."""
    return references.of_pair(pair, [Sentence.of(text).claim for text in pair.captions])


def agrees(caption: str, pair: Pair) -> bool | None:
    """Return True if the caption agrees with the pair's references, and False if it does not.

    The caption must name a subject, such as "the small red ball", and a kind of change, and its claim must
    have no fault (references.py). If the pair is unchanged, the caption must instead report no change
    (no_change.py). Returns None if neither the dataset nor a reference tells the kind of change.
    """
    truth = references_of(pair)
    if not truth.kinds:
        return None
    if NO_CHANGE in truth.kinds:
        return says_no_change(caption, sentences_of([pair]))
    claim = Sentence.of(caption).claim
    return _states_change(claim) and not references.faults_of(claim, truth)


def agreement(caption: str, pair: Pair) -> Verdict | None:
    """Return the verdict on a caption: true if the caption agrees with the pair's references, else false.

    The result is None if neither the dataset nor a reference tells the kind of change. No faults are named,
    because the words between the parts of a sentence are not read. The exception is UNPARSED: a false caption
    is unreadable if it neither reports no change, nor names both a kind of change and an object.
    """
    agreed = agrees(caption, pair)
    if agreed is None:
        return None
    if agreed:
        return Verdict(True, True)
    is_readable = says_no_change(caption) or _states_change(Sentence.of(caption).claim)
    return Verdict(False, False, (caption,), "" if is_readable else UNPARSED)


STRICT = (judge, agreement)
"""Functions that read captions strictly and judge them: by the scene (first), by the references (second)."""


def _states_change(claim: Claim) -> bool:
    return claim.subject is not None and claim.kind != UNREADABLE
