"""Make negatives of descriptions of birds: Birds-to-Words (two birds, animal1 and animal2), CUB (one bird).

Negatives keep the spelling and punctuation of captions, so that they differ from captions only in content.
The datasets have no labels, so a description cannot be proved wrong. A description counts as wrong if it
and the references contradict each other about a part of a bird (bird_claims.py).
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np

from pipeline.datasets.schema import Pair
from pipeline.negatives import bird_claims
from pipeline.negatives.bird_claims import MEANING, SIBLINGS
from pipeline.negatives.geometric import MOST, drawn, plain
from pipeline.negatives.tfidf import Index
from pipeline.text import vocabularies

WORD = re.compile(r"[^\W\d_]+", re.ASCII)
ANIMAL = re.compile(r"\banimal([12])\b")
REPLACED = 3  # maximum number of replaced words per caption
ALIKE = ({"both"}, {"similar"}, {"same"}, {"no", "differences"})
"""Sets of words. A caption with all words of such a set stays true if the two animals are exchanged."""


class Birds:
    """A TF-IDF index of a split's captions, and the number of times each word is in the training captions."""

    def __init__(self, pairs: Sequence[Pair], training: Sequence[str], rng: np.random.Generator):
        written = {plain(caption): caption for pair in pairs for caption in pair.captions}
        self.index = Index(drawn(sorted(written), MOST, rng))
        self.written = {text: written[text] for text in self.index.documents}
        self.counts = Counter(word for caption in training for word in _words(caption))

    def source(self, pair: Pair, references: Sequence[str], rng: np.random.Generator) -> "Source":
        """Return the source of negatives for one pair of the split."""
        return Source(self, references, rng)


class Source:
    """Source of candidates for the negatives of one pair."""

    certain = False

    def __init__(self, split: Birds, references: Sequence[str], rng: np.random.Generator):
        self._split, self._references, self._rng = split, references, rng
        self._named = {_value(word) for caption in references for word in _words(caption) if word in MEANING}
        self._claims = bird_claims.of_captions(references)

    def wrong(self, caption: str) -> bool:
        """Return True if the caption contradicts the pair's references about a part of a bird."""
        return bird_claims.contradicts(caption, self._claims)

    def retrieve(self, number: int) -> Iterator[str]:
        """Yield the split's descriptions by falling similarity to reference `number`."""
        reference = self._references[number % len(self._references)]
        ranked = self._split.index.ranked(vocabularies.tokenise(reference, lower_case=True))
        yield from (self._split.written[text] for text in ranked)

    def replace(self, number: int) -> Iterator[str | None]:
        """Yield the references in turn, from reference `number` on, each with some words replaced.

        At the first use of each reference, the words with the largest TF-IDF weights are replaced, at most
        REPLACED words. At later uses, 1 to REPLACED random words are replaced. A new word never names a
        value (such as a colour) that a reference names. In place of a reference without replaceable words,
        None is yielded.
        """
        for turn, caption in enumerate(self._turns(number)):
            yield self._replaced(caption, heaviest=turn < len(self._references))

    def confuse(self, number: int) -> Iterator[str | None]:
        """Yield the references in turn, from reference `number` on, with animal1 and animal2 exchanged.

        None is yielded in place of a reference that would stay true.
        """
        for caption in self._turns(number):
            alike = any(words <= set(_words(caption)) for words in ALIKE)
            yield None if alike else ANIMAL.sub(lambda found: f"animal{3 - int(found[1])}", caption)

    def _replaced(self, caption: str, heaviest: bool) -> str | None:
        found = list(WORD.finditer(caption))
        words = [word[0].lower() for word in found]
        weights = self._split.index.weights(words)
        places = [place for place, word in enumerate(words) if word in MEANING]
        most = REPLACED
        if heaviest:
            places.sort(key=lambda place: -weights[words[place]])
        else:
            # few words, because a new part with a new colour (red belly, white head) contradicts nothing
            places = [places[at] for at in self._rng.permutation(len(places))]
            most = 1 + int(self._rng.integers(REPLACED))
        taken: dict[int, str] = {}
        for place in places:
            if len(taken) < most and (word := self._other(words[place])) is not None:
                taken[place] = word
        articles = {
            place - 1: "an" if word[0] in "aeiou" else "a"
            for place, word in taken.items()
            if words[place - 1] in ("a", "an")
        }
        new = {found[place].start(): word for place, word in (articles | taken).items()}
        return WORD.sub(lambda word: new.get(word.start(), word[0]), caption) if taken else None

    def _other(self, word: str) -> str | None:
        """Draw a word with the class and ending of `word`, in proportion to its frequency in training.

        The drawn word names no value (such as a colour) that a reference names. Return None if no such word
        exists.
        """
        siblings = SIBLINGS[MEANING[word][:2]]
        left = [o for o in siblings if _value(o) not in self._named and self._split.counts[o]]
        if not left:
            return None
        counts = np.array([self._split.counts[other] for other in left], dtype=float)
        return left[int(self._rng.choice(len(left), p=counts / counts.sum()))]

    def _turns(self, number: int) -> Iterator[str]:
        yield from (self._references[turn % len(self._references)] for turn in count(number))


def _words(caption: str) -> list[str]:
    return [found[0].lower() for found in WORD.finditer(caption)]


def _value(word: str) -> tuple[str, int]:
    return MEANING[word].kind, MEANING[word].value
