"""Negatives of captions of coloured solids: CLEVR-Change, CLEVR-DC, tabletop.

Nearly right captions are made by exchanging words, or parts of a sentence: the functions below give the new
words, or None where there is nothing to exchange. Whether they are wrong of the pair is asked afterwards.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import numpy as np

from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.negatives import solid_claims
from pipeline.negatives.solid_claims import MEANING, Claims, Sentence
from pipeline.negatives.tfidf import Index
from pipeline.tabletop.words import SYNONYMS
from pipeline.text import vocabularies

Words = tuple[str, ...]
MOST = 20_000  # captions that are looked through for alike ones


class Geometric:
    """A split's captions: those of changes with their TF-IDF, and those that say that nothing changed."""

    def __init__(self, pairs: Sequence[Pair], training: Sequence[str], rng: np.random.Generator):
        """`training`: not asked here; the words to take are the grammar's own."""
        self._of_scene: dict[str, list[str]] = {}
        changes: dict[str, None] = {}
        no_changes: dict[str, None] = {}
        for pair in pairs:
            texts = [plain(caption) for caption in pair.captions]
            # CLEVR-DC does not say which pairs are without a change; their captions do
            if solid_claims.of_pair(pair, [Sentence(tuple(text.split())) for text in texts]).kinds == {
                NO_CHANGE
            }:
                no_changes |= dict.fromkeys(texts)
            else:
                changes |= dict.fromkeys(texts)
                self._of_scene.setdefault(pair.scene_id, []).extend(texts)
        self.no_changes = sorted(no_changes)
        self.index = Index(drawn(sorted(changes), MOST, rng))
        self.endings = _endings(self.index.documents)

    def source(self, pair: Pair, references: Sequence[str], rng: np.random.Generator) -> "Source":
        """Where the negatives of one of these pairs come from."""
        return Source(self, pair, [plain(caption) for caption in references], rng)

    def of_scene(self, scene_id: str) -> list[str]:
        """The captions of a scene's changes."""
        return self._of_scene.get(scene_id, [])


class Source:
    """The negatives of one pair."""

    certain = True

    def __init__(self, split: Geometric, pair: Pair, references: Sequence[str], rng: np.random.Generator):
        self._split, self._pair, self._rng = split, pair, rng
        self._references = [Sentence(tuple(text.split())) for text in references]
        self._truth = solid_claims.of_pair(pair, self._references)
        self._unchanged = self._truth.kinds == {NO_CHANGE}

    def wrong(self, caption: str) -> bool:
        """Whether it contradicts the references; the pair's own kind of change is known as a rule."""
        return solid_claims.contradicts(Sentence(tuple(caption.split())).claims, self._truth)

    def retrieve(self, number: int) -> Iterator[str]:
        """Captions of other pairs by falling similarity; second, one that says that nothing changed.

        Without the second such a sentence would always be the right one: FDA would ask no model whether
        anything changed. Of a pair without a change: its scene's change, twice, then any.
        """
        if self._unchanged:
            own = self._split.of_scene(self._pair.scene_id) if number < 2 else []
            yield from self._uniform(own)
            yield from self._uniform(self._split.index.documents)
        elif number == 1 and self._split.no_changes:
            yield from self._uniform(self._split.no_changes)
        else:
            reference = self._references[number % len(self._references)]
            yield from self._split.index.ranked(reference.words)

    def replace(self, number: int) -> Iterator[str | None]:
        """One word of subject and new value, or two, in turn."""
        for sentence in self._turns(number):
            weights = self._split.index.weights(sentence.words)
            yield _text(_replaced(sentence, self._truth, weights, 1 + number % 2, self._rng))

    def confuse(self, number: int) -> Iterator[str | None]:
        """Subject and landmark exchanged; second, old and new value, or added and gone."""
        for sentence in self._turns(number):
            if number % 2 == 0:
                yield _text(_exchanged_landmark(sentence))
            else:
                yield _text(
                    _exchanged_values(sentence) or _exchanged_ending(sentence, self._split.endings, self._rng)
                )

    def _turns(self, number: int) -> Iterator[Sentence]:
        """The references for ever, from one on; none of a pair without a change, where every one is true."""
        if not self._unchanged:
            yield from (self._references[turn % len(self._references)] for turn in count(number))

    def _uniform(self, texts: Sequence[str]) -> Iterator[str]:
        yield from (texts[place] for place in self._rng.permutation(len(texts)))


def plain(caption: str) -> str:
    """A caption as tokens joined by one space: all negatives are written so."""
    return " ".join(vocabularies.tokenise(caption, lower_case=True))


def drawn(texts: Sequence[str], most: int, rng: np.random.Generator) -> list[str]:
    """All, or `most` of them, in order."""
    if len(texts) <= most:
        return list(texts)
    return [texts[place] for place in sorted(rng.choice(len(texts), most, replace=False))]


def _endings(documents: Sequence[str]) -> dict[str, list[Words]]:
    """Kind of change -> the distinct ends of its sentences, behind the last noun."""
    found: dict[str, dict[Words, None]] = {}
    for text in documents:
        sentence = Sentence(tuple(text.split()))
        for kind in sentence.claims.kinds:
            found.setdefault(kind, {})[_ending(sentence)] = None
    return {kind: sorted(own) for kind, own in found.items()}


def _text(words: Words | None) -> str | None:
    return None if words is None else " ".join(words)


def _replaced(
    sentence: Sentence, truth: Claims, weights: Mapping[str, float], count: int, rng: np.random.Generator
) -> Words | None:
    """`count` words of the subject and the new value, the heaviest that have another value to take."""
    words = list(sentence.words)
    places = sentence.attributes + ([] if sentence.value is None else [sentence.value])
    changed = 0
    for place in sorted(places, key=lambda place: (-weights[sentence.words[place]], place)):
        attribute, own = MEANING[words[place]]
        barred = _barred(sentence, words, place, attribute, truth) | {own}
        left = [group for number, group in enumerate(SYNONYMS[attribute].values()) if number not in barred]
        if left and changed < count:
            group = left[int(rng.integers(len(left)))]
            words[place] = group[int(rng.integers(len(group)))]
            changed += 1
    return tuple(words) if changed else None


def _barred(sentence: Sentence, words: Sequence[str], place: int, attribute: str, truth: Claims) -> set[int]:
    """The values that a word must not take: old and new must stay two, a new colour unheard of."""
    if place != sentence.value:
        same = sentence.value is not None and MEANING[words[sentence.value]][0] == attribute
        return {MEANING[words[sentence.value]][1]} if same and sentence.value is not None else set()
    subject = {MEANING[words[p]][1] for p in sentence.attributes if MEANING[words[p]][0] == attribute}
    if attribute != "color":
        return subject
    return subject | set(truth.look.get(attribute, ())) | set(truth.value.get(attribute, ()))


def _exchanged_landmark(sentence: Sentence) -> Words | None:
    """Subject and landmark, each behind its article, in each other's place."""
    one, other = sentence.subject, sentence.landmark
    if not one or not other:
        return None
    words = sentence.words
    between = words[one.stop : other.start]
    return (
        *words[: one.start],
        *words[other.start : other.stop],
        *between,
        *words[one.start : one.stop],
        *words[other.stop :],
    )


def _exchanged_values(sentence: Sentence) -> Words | None:
    """The old value, where the subject names it, and the new one in each other's place."""
    if sentence.value is None:
        return None
    words = list(sentence.words)
    attribute = MEANING[words[sentence.value]][0]
    old = [place for place in sentence.attributes if MEANING[words[place]][0] == attribute]
    if not old:
        return None
    words[old[0]], words[sentence.value] = words[sentence.value], words[old[0]]
    return tuple(words)


def _exchanged_ending(
    sentence: Sentence, endings: Mapping[str, Sequence[Words]], rng: np.random.Generator
) -> Words | None:
    """What follows the last noun, of something added as of something gone, or the other way round."""
    other = {"add": "drop", "drop": "add"}.get(next(iter(sentence.claims.kinds), ""), "")
    if not endings.get(other):
        return None
    ending = endings[other][int(rng.integers(len(endings[other])))]
    return (*sentence.words[: sentence.nouns[-1] + 1], *ending)


def _ending(sentence: Sentence) -> Words:
    """What follows the last noun."""
    return sentence.words[sentence.nouns[-1] + 1 :] if sentence.nouns else ()
