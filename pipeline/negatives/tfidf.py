"""TF-IDF of captions: compute the weights of words, and rank captions by similarity."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np


class Index:
    """Index of n captions, each stored as a unit vector of word weights.

    Before normalisation, the weight of a word is count × (1 + ln((1 + n) / (1 + df))), where count is how
    often the word is in the caption, and df is the number of captions with this word.
    """

    def __init__(self, documents: Iterable[str]):
        """Index the captions `documents`: tokens joined by single spaces. Equal captions count once."""
        self.documents = sorted(set(documents))
        counts = [Counter(text.split()) for text in self.documents]
        self._having = Counter(word for own in counts for word in own)
        self._places: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for number, own in enumerate(counts):
            for word, value in self._vector(own).items():
                self._places[word].append((number, value))

    def weights(self, words: Sequence[str]) -> dict[str, float]:
        """Return a dictionary: word -> weight before normalisation. An unknown word has df = 0."""
        return {word: count * self._rarity(word) for word, count in Counter(words).items()}

    def ranked(self, words: Sequence[str]) -> Iterator[str]:
        """Yield all indexed captions by falling cosine similarity to `words`; ties alphabetically."""
        similarity = np.zeros(len(self.documents))
        for word, value in self._vector(Counter(words)).items():
            if word in self._having:
                numbers, values = zip(*self._places[word], strict=True)
                similarity[list(numbers)] += value * np.array(values)
        # the order of summation changes the rounding, which must not decide between equal similarities
        order = np.argsort(-similarity.round(9), kind="stable")
        yield from (self.documents[number] for number in order)

    def _rarity(self, word: str) -> float:
        return 1.0 + math.log((1 + len(self.documents)) / (1 + self._having[word]))

    def _vector(self, counts: Mapping[str, int]) -> dict[str, float]:
        values = {word: counts[word] * self._rarity(word) for word in sorted(counts)}
        norm = math.sqrt(math.fsum(value * value for value in values.values())) or 1.0
        return {word: value / norm for word, value in values.items()}
