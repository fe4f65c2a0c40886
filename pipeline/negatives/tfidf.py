"""TF-IDF of captions: weights of words, and ranking by similarity."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np


class Index:
    """Captions as unit vectors of count × (1 + ln((1 + n) / (1 + df))) per word."""

    def __init__(self, documents: Iterable[str]):
        """Index distinct documents, each its tokens joined by one space."""
        self.documents = sorted(set(documents))
        counts = [Counter(text.split()) for text in self.documents]
        self._having = Counter(word for own in counts for word in own)
        self._places: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for number, own in enumerate(counts):
            for word, value in self._vector(own).items():
                self._places[word].append((number, value))

    def weights(self, words: Sequence[str]) -> dict[str, float]:
        """Return the weight of each distinct word; an unknown word has document frequency 0."""
        return {word: count * self._rarity(word) for word, count in Counter(words).items()}

    def ranked(self, words: Sequence[str]) -> Iterator[str]:
        """Yield all documents by falling cosine similarity to the words; ties in alphabetical order."""
        similarity = np.zeros(len(self.documents))
        for word, value in self._vector(Counter(words)).items():
            if word in self._having:
                numbers, values = zip(*self._places[word], strict=True)
                similarity[list(numbers)] += value * np.array(values)
        # sums in another order differ by rounding, which must not break ties
        order = np.argsort(-similarity.round(9), kind="stable")
        yield from (self.documents[number] for number in order)

    def _rarity(self, word: str) -> float:
        return 1.0 + math.log((1 + len(self.documents)) / (1 + self._having[word]))

    def _vector(self, counts: Mapping[str, int]) -> dict[str, float]:
        values = {word: counts[word] * self._rarity(word) for word in sorted(counts)}
        norm = math.sqrt(math.fsum(value * value for value in values.values())) or 1.0
        return {word: value / norm for word, value in values.items()}
