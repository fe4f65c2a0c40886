"""Parse captions of coloured solids (CLEVR-Change, CLEVR-DC, tabletop) and compare what they claim.

A sentence names a kind of change, a subject ("the small red ball"), perhaps a landmark ("that is behind the
metal cube") and perhaps a new value ("turned blue"), with any words between these parts. Landmarks are not
compared, because the captions do not describe positions in full.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pipeline.datasets.schema import CHANGE_TYPES, NO_CHANGE, Pair
from pipeline.scoring.no_change import says_no_change, sentences_of
from pipeline.scoring.truth import UNREADABLE, Verdict, judge
from pipeline.tabletop.words import CUES, MEANINGS, NEW_VALUE, NOUNS

MEANING = {word: (name, value) for name, values in MEANINGS.items() for word, value in values.items()}
"""Word -> attribute and value."""
ARTICLES = {"the", "a", "an", "another", "other"}  # first words of a noun phrase
NONE: frozenset[str] = frozenset()
Values = Mapping[str, frozenset[str]]
"""Attribute -> its values that a sentence names."""


@dataclass(frozen=True)
class Claims:
    """Claims of one or several sentences about a change. A field that no sentence mentions is empty."""

    kinds: frozenset[str]  # kinds of change: CHANGE_TYPES or NO_CHANGE
    look: Values  # attributes of the subject
    value: Values  # new colour or material


@dataclass(frozen=True)
class Sentence:
    """The words of a caption, and the positions of its parts."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, caption: str) -> "Sentence":
        return cls(tuple(re.findall(r"[a-z]+", caption.lower())))

    @cached_property
    def nouns(self) -> list[int]:
        """Indices, in `words`, of nouns for objects ("ball"). A sentence without one reports no change."""
        return [position for position, word in enumerate(self.words) if word in NOUNS]

    @cached_property
    def subject(self) -> range:
        return self._phrase(0, self.nouns[0]) if self.nouns else range(0)

    @cached_property
    def landmark(self) -> range:
        """Positions of the second noun phrase, as in "behind the red cube", or an empty range."""
        return self._phrase(self.subject.stop, self.nouns[1]) if len(self.nouns) > 1 else range(0)

    @cached_property
    def value(self) -> int | None:
        """Index of the new colour or material, after the last noun; None in another change."""
        after = range(self.nouns[-1] + 1, len(self.words)) if self.nouns else range(0)
        values = [position for position in after if self._attribute(position) in NEW_VALUE]
        return values[-1] if values and self._verb() is None else None

    @cached_property
    def attributes(self) -> list[int]:
        return [position for position in self.subject if self.words[position] in MEANING]

    @cached_property
    def claims(self) -> Claims:
        """Claims of the sentence: kinds of change (or no change), attributes of the subject, new value."""
        value = [] if self.value is None else [self.value]
        return Claims(frozenset(self._kinds()), self._named(self.attributes), self._named(value))

    def _phrase(self, start: int, noun: int) -> range:
        articles = [position for position in range(start, noun) if self.words[position] in ARTICLES]
        return range(articles[-1] + 1, noun + 1) if articles else range(0)

    def _attribute(self, position: int) -> str:
        return MEANING.get(self.words[position], ("", ""))[0]

    def _verb(self) -> str | None:
        return next((kind for kind, verbs in CUES.items() if verbs & set(self.words)), None)

    def _kinds(self) -> list[str]:
        if not self.nouns:
            return [NO_CHANGE]
        if verb := self._verb():
            return [verb]
        return [] if self.value is None else [NEW_VALUE[self._attribute(self.value)]]

    def _named(self, positions: Iterable[int]) -> Values:
        meanings = (MEANING[self.words[position]] for position in positions)
        return _joined({attribute: frozenset([value])} for attribute, value in meanings)


def of_pair(pair: Pair, references: Sequence[Sentence]) -> Claims:
    """Join the claims of a pair's references; the dataset's kind of change replaces theirs."""
    claims = [sentence.claims for sentence in references]
    kinds = frozenset(kind for claim in claims for kind in claim.kinds)
    if pair.change_type in (*CHANGE_TYPES, NO_CHANGE):
        kinds = frozenset([pair.change_type])
    return Claims(kinds, _joined(claim.look for claim in claims), _joined(claim.value for claim in claims))


def contradicts(candidate: Claims, truth: Claims) -> bool:
    """Return True if both claims name kinds, or values of an attribute, but none in common.

    It is False for nonsense such as "the rubber ball became rubber", whatever `truth` claims.
    """
    if any(candidate.look.get(name, NONE) & values for name, values in candidate.value.items()):
        return False
    return (
        _differ(candidate.kinds, truth.kinds)
        or any(_differ(values, truth.look.get(name, NONE)) for name, values in candidate.look.items())
        or any(_differ(values, truth.value.get(name, NONE)) for name, values in candidate.value.items())
    )


def agrees(caption: str, pair: Pair) -> bool | None:
    """Return True if the caption agrees with the pair's references; None if no kind of change is known.

    A caption agrees if it names a subject, the kind of change (the dataset's, or a reference's), no size,
    colour, material or shape of the subject but the references' only one, and a new value of theirs. An
    unchanged pair needs a caption of no change (no_change.py).
    """
    truth = of_pair(pair, [Sentence.of(text) for text in pair.captions])
    if not truth.kinds:
        return None
    if NO_CHANGE in truth.kinds:
        return says_no_change(caption, sentences_of([pair]))
    sentence = Sentence.of(caption)
    claims = sentence.claims
    if not sentence.subject or not claims.kinds or not claims.kinds <= truth.kinds:
        return False
    same_look = all(values == truth.look.get(name) for name, values in claims.look.items())
    return same_look and all(values <= truth.value.get(name, NONE) for name, values in claims.value.items())


def agreement(caption: str, pair: Pair) -> Verdict | None:
    """Return the verdict on a caption: true if the caption agrees with the pair's references, else false.

    The result is None if neither the dataset nor a reference tells the kind of change. A false caption is
    unreadable if it does not report no change, and does not name both a kind of change and an object. Such
    a caption has the fault UNREADABLE.
    """
    agreed = agrees(caption, pair)
    if agreed is None:
        return None
    if agreed:
        return Verdict(True, True)
    sentence = Sentence.of(caption)
    is_readable = says_no_change(caption) or (sentence.subject and sentence.claims.kinds)
    return Verdict(False, False, (caption,), "" if is_readable else UNREADABLE)


STRICT = (judge, agreement)
"""Functions that parse captions strictly and judge them: by the scene (first), by the references (second)."""


def _differ(a: frozenset[str], b: frozenset[str]) -> bool:
    return bool(a) and bool(b) and not a & b


def _joined(parts: Iterable[Values]) -> dict[str, frozenset[str]]:
    joined: dict[str, frozenset[str]] = {}
    for part in parts:
        for name, values in part.items():
            joined[name] = joined.get(name, NONE) | values
    return joined
