"""Negatives of captions of coloured solids: CLEVR-Change, CLEVR-DC, tabletop."""

from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np

from pipeline import vocabularies
from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.negatives import edits, solid_claims
from pipeline.negatives.edits import Words
from pipeline.negatives.solid_claims import Sentence
from pipeline.negatives.tfidf import Index

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
            yield _text(edits.replaced(sentence, self._truth, weights, 1 + number % 2, self._rng))

    def confuse(self, number: int) -> Iterator[str | None]:
        """Subject and landmark exchanged; second, old and new value, or added and gone."""
        for sentence in self._turns(number):
            if number % 2 == 0:
                yield _text(edits.exchanged_landmark(sentence))
            else:
                yield _text(
                    edits.exchanged_values(sentence)
                    or edits.exchanged_ending(sentence, self._split.endings, self._rng)
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
            found.setdefault(kind, {})[edits.ending(sentence)] = None
    return {kind: sorted(own) for kind, own in found.items()}


def _text(words: Words | None) -> str | None:
    return None if words is None else " ".join(words)
