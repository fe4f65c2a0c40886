"""TF-IDF over captions: which words weigh most in one, and which other captions are most like it."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np


class Index:
    """Captions as vectors: count × (1 + ln((1 + n) / (1 + df))) of each word, of unit length."""

    def __init__(self, documents: Iterable[str]):
        # as tokens joined by one space; ties in the order of the text
        self.documents = sorted(set(documents))
        counts = [Counter(text.split()) for text in self.documents]
        self._having = Counter(word for own in counts for word in own)
        places: dict[str, list[tuple[int, float]]] = {word: [] for word in self._having}
        for number, own in enumerate(counts):
            for word, value in self._vector(own).items():
                places[word].append((number, value))
        self._places = {word: _columns(found) for word, found in places.items()}

    def weights(self, words: Sequence[str]) -> dict[str, float]:
        """Each distinct word's weight; a word that no document has weighs as the rarest of all."""
        return {word: count * self._rarity(word) for word, count in Counter(words).items()}

    def ranked(self, words: Sequence[str]) -> Iterator[str]:
        """All documents by falling cosine to the words; equal ones in the order of their text."""
        similarity = np.zeros(len(self.documents))
        for word, value in self._vector(Counter(words)).items():
            if word in self._places:
                numbers, values = self._places[word]
                similarity[numbers] += value * values
        # equal bags of words were summed in other orders: rounding must not rank them
        order = np.argsort(-similarity.round(9), kind="stable")
        yield from (self.documents[number] for number in order)

    def _rarity(self, word: str) -> float:
        return 1.0 + math.log((1 + len(self.documents)) / (1 + self._having[word]))

    def _vector(self, counts: Mapping[str, int]) -> dict[str, float]:
        values = {word: counts[word] * self._rarity(word) for word in sorted(counts)}
        norm = math.sqrt(math.fsum(value * value for value in values.values())) or 1.0
        return {word: value / norm for word, value in values.items()}


def _columns(found: Sequence[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([number for number, _ in found]), np.array([value for _, value in found])
