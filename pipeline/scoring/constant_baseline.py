"""The best constant caption: what one can score without looking at the pictures.

It is chosen on the validation split among the most frequent training captions, by CIDEr-D.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from pipeline.datasets.schema import Pair, of_split
from pipeline.errors import InputError
from pipeline.scoring.metrics import LONGEST, SIGMA, Ngram, bigrams, cider_d, ngrams
from pipeline.scoring.tokenizer import OF_SCORES, one_line

TOLERANCE = 1e-9  # of a CIDEr-D of at most 10: far above the arithmetic's error


@dataclass(frozen=True)
class Constant:
    """A caption, and its CIDEr-D (a fraction) when every validation pair is given it."""

    caption: str
    cider_d: float


def choose(pairs: Sequence[Pair], candidates: int, timeout: float, tokeniser: str = "ptb") -> Constant:
    """The best on the validation split of the `candidates` most frequent training captions.

    Of equals, the more frequent one, then the first by alphabet. The tokenizer has `timeout`
    seconds. Raises InputError where there is no caption to choose, or none to choose by.
    """
    captions = most_frequent(of_split(pairs, "train"), candidates)
    if not captions:
        raise InputError("the split train has no captions to choose a constant caption from; add some")
    validation = {pair.pair_id: pair.captions for pair in of_split(pairs, "val")}
    _, split = OF_SCORES[tokeniser]
    # in one call: Java starts once
    sentences = [*captions, *chain.from_iterable(validation.values())]
    tokens = dict(zip(sentences, split(sentences, timeout), strict=True))
    references = {key: [tokens[text] for text in texts if tokens[text]] for key, texts in validation.items()}
    references = {key: texts for key, texts in references.items() if texts}
    if not references:
        raise InputError("the split val has no captions to choose a constant caption by; add some")
    return _best({text: tokens[text] for text in captions}, references)


def most_frequent(pairs: Sequence[Pair], count: int) -> list[str]:
    """The `count` captions that stand most often in the pairs, white space collapsed; ties by alphabet."""
    counts = Counter(one_line(text) for pair in pairs for text in pair.captions if text.strip())
    return sorted(counts, key=lambda text: (-counts[text], text))[:count]


def _best(candidates: dict[str, str], references: dict[str, list[str]]) -> Constant:
    """The first of the best; `candidates` is caption -> tokens."""
    # the metric takes seconds a candidate on a real dataset: it decides among those alone that the
    # estimate cannot tell apart
    estimate = Estimate(references)
    estimates = {text: estimate(tokens) for text, tokens in candidates.items()}
    enough = max(estimates.values()) - TOLERANCE
    contenders = [text for text in candidates if estimates[text] >= enough]
    scores = {
        tokens: cider_d(dict.fromkeys(references, tokens), references)
        for tokens in dict.fromkeys(candidates[text] for text in contenders)
    }
    best = max(contenders, key=lambda text: scores[candidates[text]])
    return Constant(best, scores[candidates[best]])


class Estimate:
    """CIDEr-D of one caption given to all pairs, as the metric computes it up to rounding.

    A reference is as similar to that caption wherever it stands. So each distinct reference is
    compared once, with the weight of all its places, and through the n-grams that both have.
    All sentences are tokenised; `references` is id -> sentences, at least one.
    """

    def __init__(self, references: dict[str, list[str]]):
        pairs = len(references)
        weights: defaultdict[str, float] = defaultdict(float)
        for texts in references.values():
            for text in texts:
                weights[text] += 10 / (pairs * len(texts))
        grams = {text: ngrams(text) for text in weights}
        having = Counter(
            chain.from_iterable({g for text in texts for g in grams[text]} for texts in references.values())
        )
        self._rarity = {gram: math.log(pairs) - math.log(count) for gram, count in having.items()}
        self._unseen = math.log(pairs)  # the rarity of what stands in no reference
        self._weights = np.array(list(weights.values()))
        self._bigrams = np.array([bigrams(text) for text in weights])
        self._norms = np.zeros((LONGEST, len(weights)))
        self._index(list(grams.values()))

    def _index(self, sentences: list[Counter[Ngram]]) -> None:
        """For each n-gram, the references that have it and its tf-idf in each; the norms beside."""
        places: defaultdict[Ngram, list[tuple[int, float]]] = defaultdict(list)
        for number, grams in enumerate(sentences):
            for gram, count in grams.items():
                value = count * self._rarity[gram]
                places[gram].append((number, value))
                self._norms[len(gram) - 1, number] += value**2
        self._norms **= 0.5
        self._places = {
            gram: (np.array([number for number, _ in found]), np.array([value for _, value in found]))
            for gram, found in places.items()
        }

    def __call__(self, caption: str) -> float:
        similarity, norms = np.zeros_like(self._norms), np.zeros((LONGEST, 1))
        for gram, count in ngrams(caption).items():
            value = count * self._rarity.get(gram, self._unseen)
            norms[len(gram) - 1] += value**2
            if gram in self._places:
                numbers, values = self._places[gram]
                similarity[len(gram) - 1, numbers] += np.minimum(value, values) * values
        products = norms**0.5 * self._norms
        similarity /= np.where(products == 0, 1, products)
        similarity *= np.exp(-((bigrams(caption) - self._bigrams) ** 2) / (2 * SIGMA**2))
        return float(similarity.mean(0) @ self._weights)
