"""What captions of coloured solids say (CLEVR-Change, CLEVR-DC, tabletop), and which contradict each other.

A sentence names a kind of change, a subject ("the small red ball"), perhaps a landmark ("that is behind the
metal cube") and perhaps a new value ("turned blue"). The landmark says where the subject lies, and is never
asked: where a thing lies from another one, the captions do not tell in full.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pipeline.datasets.schema import CHANGE_TYPES, NO_CHANGE, Pair
from pipeline.tabletop.words import CUES, NEW_VALUE, NOUNS, SYNONYMS

MEANING = {
    word: (attribute, number)
    for attribute, values in SYNONYMS.items()
    for number, words in enumerate(values.values())
    for word in words
}
"""Word -> attribute, and the number of its value."""
OPENINGS = {"the", "a", "an", "another", "other"}  # of a phrase; they stay where they are: "the other ball"

Values = Mapping[str, frozenset[int]]
"""Attribute -> the values named of it."""


@dataclass(frozen=True)
class Claims:
    """What one sentence or several name; empty where they name nothing."""

    kinds: frozenset[str]  # of change: CHANGE_TYPES or NO_CHANGE
    look: Values  # of the subject
    value: Values  # that it came to have


@dataclass(frozen=True)
class Sentence:
    """A caption in words, and where its parts stand."""

    words: tuple[str, ...]

    @cached_property
    def nouns(self) -> list[int]:
        """Where the nouns stand; none in a sentence that says that nothing changed."""
        return [place for place, word in enumerate(self.words) if word in NOUNS]

    @cached_property
    def subject(self) -> range:
        """What follows its article, up to its noun; empty where there is no noun."""
        return self._phrase(0, self.nouns[0]) if self.nouns else range(0)

    @cached_property
    def landmark(self) -> range:
        """What follows its article, up to the second noun; empty where there is none."""
        return self._phrase(self.subject.stop, self.nouns[1]) if len(self.nouns) > 1 else range(0)

    @cached_property
    def value(self) -> int | None:
        """Where the new colour or material stands, after the last noun."""
        after = range(self.nouns[-1] + 1, len(self.words)) if self.nouns else range(0)
        named = [place for place in after if self._attribute(place) in NEW_VALUE]
        return named[-1] if named and self._verb() is None else None

    @cached_property
    def attributes(self) -> list[int]:
        """Where the subject's words of size, colour, material and shape stand."""
        return [place for place in self.subject if self.words[place] in MEANING]

    @cached_property
    def claims(self) -> Claims:
        """What it says."""
        value = [] if self.value is None else [self.value]
        return Claims(frozenset(self._kinds()), self._named(self.attributes), self._named(value))

    def _phrase(self, start: int, noun: int) -> range:
        openings = [place for place in range(start, noun) if self.words[place] in OPENINGS]
        return range(openings[-1] + 1, noun + 1) if openings else range(0)

    def _attribute(self, place: int) -> str:
        return MEANING.get(self.words[place], ("", 0))[0]

    def _verb(self) -> str | None:
        return next((kind for kind, verbs in CUES.items() if verbs & set(self.words)), None)

    def _kinds(self) -> list[str]:
        if not self.nouns:
            return [NO_CHANGE]
        if verb := self._verb():
            return [verb]
        return [] if self.value is None else [NEW_VALUE[self._attribute(self.value)]]

    def _named(self, places: Iterable[int]) -> Values:
        return _joined({MEANING[self.words[p]][0]: frozenset([MEANING[self.words[p]][1]])} for p in places)


def of_pair(pair: Pair, references: Sequence[Sentence]) -> Claims:
    """What all references of a pair say together; the kind is the dataset's, where it names one."""
    claims = [sentence.claims for sentence in references]
    kinds = frozenset(kind for each in claims for kind in each.kinds)
    if pair.change_type in (*CHANGE_TYPES, NO_CHANGE):
        kinds = frozenset([pair.change_type])
    return Claims(kinds, _joined(each.look for each in claims), _joined(each.value for each in claims))


def contradicts(candidate: Claims, truth: Claims) -> bool:
    """Whether the candidate cannot be true where `truth` is.

    It names another kind of change, or another value of something that both name. A subject that has its
    new value already ("the rubber ball became rubber") is never a negative: no reference speaks so.
    """
    if any(candidate.look.get(name, frozenset()) & own for name, own in candidate.value.items()):
        return False
    return (
        _differ(candidate.kinds, truth.kinds)
        or any(_differ(own, truth.look.get(name, frozenset())) for name, own in candidate.look.items())
        or any(_differ(own, truth.value.get(name, frozenset())) for name, own in candidate.value.items())
    )


def _differ(one: frozenset[object], other: frozenset[object]) -> bool:
    return bool(one) and bool(other) and not one & other


def _joined(parts: Iterable[Values]) -> dict[str, frozenset[int]]:
    found: dict[str, frozenset[int]] = {}
    for part in parts:
        for name, values in part.items():
            found[name] = found.get(name, frozenset()) | values
    return found
