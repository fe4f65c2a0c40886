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
from pipeline.scoring.accuracy import says_no_change
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
        """Split a caption into words in lower case. Only the letters a to z belong to words."""
        return cls(tuple(re.findall(r"[a-z]+", caption.lower())))

    @cached_property
    def nouns(self) -> list[int]:
        """Indices, in `words`, of nouns for objects ("ball"). A sentence without one reports no change."""
        return [position for position, word in enumerate(self.words) if word in NOUNS]

    @cached_property
    def subject(self) -> range:
        """Positions of the words of the first noun phrase, without its article ("small red ball")."""
        return self._phrase(0, self.nouns[0]) if self.nouns else range(0)

    @cached_property
    def landmark(self) -> range:
        """Positions of the words of the second noun phrase, without its article ("red cube").

        The landmark is the object that tells where the subject is, as in "behind the red cube". The range is
        empty if the sentence has no such noun phrase.
        """
        return self._phrase(self.subject.stop, self.nouns[1]) if len(self.nouns) > 1 else range(0)

    @cached_property
    def value(self) -> int | None:
        """Index, in the sentence's words, of the new colour or material that the object gets.

        The word must stand after the last noun. The value is None if there is no such word, or if the
        sentence has a verb of another change.
        """
        after = range(self.nouns[-1] + 1, len(self.words)) if self.nouns else range(0)
        values = [position for position in after if self._attribute(position) in NEW_VALUE]
        return values[-1] if values and self._verb() is None else None

    @cached_property
    def attributes(self) -> list[int]:
        """Positions of the subject's words of size, colour, material and shape."""
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
    """Return one Claims object that joins the claims of all references of a pair.

    If the dataset states the pair's kind of change, this kind replaces the kinds that the references
    name.
    """
    claims = [sentence.claims for sentence in references]
    kinds = frozenset(kind for claim in claims for kind in claim.kinds)
    if pair.change_type in (*CHANGE_TYPES, NO_CHANGE):
        kinds = frozenset([pair.change_type])
    return Claims(kinds, _joined(claim.look for claim in claims), _joined(claim.value for claim in claims))


def contradicts(candidate: Claims, truth: Claims) -> bool:
    """Return True if the claims `candidate` and the claims `truth` cannot both be true.

    There are two kinds of contradiction:
    - Both name kinds of change, but have no kind in common.
    - Both name values of the same attribute, but have no value in common.

    Exception: a candidate such as "the rubber ball became rubber", whose subject already has the new
    value, makes no sense. The result is then False, whatever `truth` claims.
    """
    if any(candidate.look.get(name, NONE) & values for name, values in candidate.value.items()):
        return False
    return (
        _differ(candidate.kinds, truth.kinds)
        or any(_differ(values, truth.look.get(name, NONE)) for name, values in candidate.look.items())
        or any(_differ(values, truth.value.get(name, NONE)) for name, values in candidate.value.items())
    )


def agrees(caption: str, pair: Pair, phrases: Sequence[str]) -> bool | None:
    """Return True if the caption agrees with the pair's references, and False if it does not.

    A caption agrees if all of these are true:
    - It names a subject, such as "the small red ball".
    - Its kind of change is the kind that the dataset states for the pair. If the dataset states none, a
      reference must report this kind.
    - The references name each size, colour, material and shape that the caption gives the subject, and
      no other. For example, a caption with "red ball" does not agree if a reference says "blue ball".
    - A reference names the same new value, such as "blue" in "turned blue", if the caption names one.

    If the pair is unchanged, the caption must instead contain one of `phrases`, which are texts that
    report no change, such as "no difference". Returns None if neither the dataset nor a reference tells
    the kind of change.
    """
    truth = of_pair(pair, [Sentence.of(text) for text in pair.captions])
    if not truth.kinds:
        return None
    if NO_CHANGE in truth.kinds:
        return says_no_change(caption, phrases)
    sentence = Sentence.of(caption)
    claims = sentence.claims
    if not sentence.subject or not claims.kinds or not claims.kinds <= truth.kinds:
        return False
    same_look = all(values == truth.look.get(name) for name, values in claims.look.items())
    return same_look and all(values <= truth.value.get(name, NONE) for name, values in claims.value.items())


def agreement(caption: str, pair: Pair, phrases: Sequence[str]) -> Verdict | None:
    """Return the verdict on a caption: true if the caption agrees with the pair's references, else false.

    `phrases` are texts that report no change, such as "no difference". The result is None if neither
    the dataset nor a reference tells the kind of change. A false caption is unreadable if it contains
    none of `phrases`, and does not name both a kind of change and an object. Such a caption has
    the fault UNREADABLE.
    """
    agreed = agrees(caption, pair, phrases)
    if agreed is None:
        return None
    if agreed:
        return Verdict(True, True)
    sentence = Sentence.of(caption)
    is_readable = says_no_change(caption, phrases) or (sentence.subject and sentence.claims.kinds)
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
