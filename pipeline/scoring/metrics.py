"""BLEU, ROUGE-L and CIDEr-D of tokenised captions, equal to pycocoevalcap's to the last digit.

Captions are id -> sentence, references id -> sentences (at least one); both have the same ids. Sums run in
the library's order, because floating-point sums depend on it.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain

import numpy as np

LONGEST = 4  # words of the longest n-gram
SIGMA = 6.0  # words; the width of CIDEr-D's length penalty
BETA = 1.2  # ROUGE-L's weight of recall against precision
SMALL, TINY = 1e-9, 1e-15  # the library's constants against division by 0
Ngram = tuple[str, ...]
Captions = Mapping[str, str]
References = Mapping[str, list[str]]


def ngrams(sentence: str) -> Counter[Ngram]:
    """Count the n-grams of 1 to LONGEST words in a tokenised sentence. Shorter n-grams come first."""
    words = sentence.split()
    return Counter(
        tuple(words[first : first + length])
        for length in range(1, LONGEST + 1)
        for first in range(len(words) - length + 1)
    )


def counted(captions: Captions, references: References) -> dict[str, Counter[Ngram]]:
    """Return sentence -> n-gram -> number of times that it occurs, for all captions and references."""
    sentences = chain(captions.values(), chain.from_iterable(references.values()))
    return {sentence: ngrams(sentence) for sentence in dict.fromkeys(sentences)}


def bleu_counts(
    captions: Captions, references: References, grams: Mapping[str, Counter[Ngram]]
) -> np.ndarray:
    """Return each pair's counts for `bleu`, int64 (pairs, 10), whose sums are those of a corpus."""
    rows = [_bleu_counts(captions[key], references[key], grams) for key in references]
    return np.array(rows, dtype=np.int64).reshape(-1, 2 * LONGEST + 2)


def _bleu_counts(caption: str, references: list[str], grams: Mapping[str, Counter[Ngram]]) -> list[int]:
    matches, reference_grams = [0] * LONGEST, [grams[text] for text in references]
    for gram, count in grams[caption].items():
        # Counter's [] gives the same value, but calls Python code for missing keys
        matches[len(gram) - 1] += min(count, max(counts.get(gram, 0) for counts in reference_grams))
    words = len(caption.split())
    _, closest = min((abs(length - words), length) for length in (len(text.split()) for text in references))
    return [*matches, *(max(0, words - n) for n in range(LONGEST)), words, closest]


def bleu(counts: np.ndarray) -> list[float]:
    """Return BLEU-1 to BLEU-4 (0 to 1) from `counts`, (10,): a row of `bleu_counts`, or a sum of rows."""
    *gram_counts, words, closest = counts.tolist()
    matches, all_grams = gram_counts[:LONGEST], gram_counts[LONGEST:]
    ratio = (words + TINY) / (closest + SMALL)
    brevity = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    scores, product = [], 1.0
    for n, (matched, count) in enumerate(zip(matches, all_grams, strict=True), 1):
        product *= (matched + TINY) / (count + SMALL)
        scores.append(product ** (1 / n) * brevity)
    return scores


def rouge_l(captions: Captions, references: References) -> np.ndarray:
    """Return ROUGE-L of each caption (0 to 1). The ROUGE-L of a corpus is the mean over its captions."""
    common_of_texts = cache(lambda caption, text: common_words(caption.split(" "), text.split(" ")))
    return np.array([_rouge_l(captions[key], references[key], common_of_texts) for key in references])


def _rouge_l(caption: str, references: list[str], common_of_texts: Callable[[str, str], int]) -> float:
    """Return ROUGE-L from the best precision and the best recall over the references.

    `common_of_texts` returns the length of the longest common subsequence of the words of two texts.
    """
    precision = recall = 0.0
    for text in references:
        common = common_of_texts(caption, text)
        # as in the library: an empty text has one word, the empty string
        precision = max(precision, common / len(caption.split(" ")))
        recall = max(recall, common / len(text.split(" ")))
    if not precision or not recall:
        return 0.0
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


def common_words(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the length of the longest common subsequence of two sequences of words.

    A row of the dynamic-programming table is an integer, and is computed by a few operations on all its
    bits. A bit is 0 where the length grows by one (Hyyrö 2004, "Bit-parallel LCS-length computation
    revisited").
    """
    positions: dict[str, int] = {}  # word -> bits of its positions in `a`
    for position, word in enumerate(a):
        positions[word] = positions.get(word, 0) | 1 << position
    row = all_bits = (1 << len(a)) - 1
    for word in b:
        equal = row & positions.get(word, 0)
        row = (row + equal | row - equal) & all_bits
    return len(a) - row.bit_count()


def cider_d(captions: Captions, references: References) -> float:
    """Return CIDEr-D of the corpus, 0 to 10; 0 for fewer than two distinct sets of references."""
    cider = CiderD(captions, references, counted(captions, references))
    return float(cider.scores(range(len(references))).mean())


def cider_is_zero(references: References) -> bool:
    """Return True if CIDEr-D is 0 for any captions: all references have the same n-grams."""
    documents = [set().union(*map(ngrams, texts)) for texts in references.values()]
    return all(document == documents[0] for document in documents)


def document_frequencies(references: References) -> Counter[Ngram]:
    return Counter(gram for texts in references.values() for gram in set().union(*map(ngrams, texts)))


class CiderD:
    """CIDEr-D of any subset of a corpus, with the subset's own document frequencies, or with given ones.

    `documents` has given document frequencies, and the number of documents that they are of. A "term" is an
    n-gram together with its count in a sentence; the two determine its tf-idf. A "couple" is a caption and
    one of its references. Equal couples are compared only once.
    """

    def __init__(
        self,
        captions: Captions,
        references: References,
        grams: Mapping[str, Counter[Ngram]],
        documents: tuple[Mapping[Ngram, int], int] | None = None,
    ):
        numbers: dict[Ngram, int] = {}
        terms: dict[tuple[int, int], int] = {}  # (n-gram, count) -> term
        sentences = {
            text: {
                (number := numbers.setdefault(gram, len(numbers))): terms.setdefault(
                    (number, count), len(terms)
                )
                for gram, count in counts.items()
            }
            for text, counts in grams.items()
        }
        self._gram, self._count = np.array(list(terms), dtype=np.int64).reshape(-1, 2).T
        self._order = np.array([len(gram) - 1 for gram in numbers], dtype=np.int64)[self._gram]
        self._grams, self._pairs = len(numbers), len(references)
        self._index_sentences(sentences)
        self._index_documents(references, sentences)
        self._given = None
        if documents:
            frequency, number = documents
            self._given = np.array([frequency.get(gram, 0) for gram in numbers], dtype=np.int64), number
        self._references, self._texts = references, sentences
        self.set_captions(captions)

    def _index_sentences(self, sentences: Mapping[str, Mapping[int, int]]) -> None:
        """Store each sentence's terms: number of an n-gram with its count -> number of the term."""
        self._sentences = len(sentences)
        self._terms = _flat(terms.values() for terms in sentences.values())
        rows = np.repeat(np.arange(self._sentences), [len(terms) for terms in sentences.values()])
        self._slot = rows * LONGEST + self._order[self._terms]  # the sum that a term's square is added to

    def _index_documents(self, references: References, sentences: Mapping[str, Mapping[int, int]]) -> None:
        """Store the distinct n-grams of each pair's references, which are one document."""
        documents = [set().union(*(sentences[text] for text in texts)) for texts in references.values()]
        self._in_document = _flat(documents)
        self._document = np.repeat(np.arange(len(documents)), [len(grams) for grams in documents])

    def set_captions(self, captions: Captions) -> None:
        """Replace the captions that `scores` scores. `captions` is a dictionary: pair id -> caption.

        Each caption must be a key of the constructor's argument `grams`. The method compares each caption
        with each of its references. It stores the n-grams that they share, and their length penalty.
        """
        references, sentences = self._references, self._texts
        all_couples = [(captions[key], text) for key, texts in references.items() for text in texts]
        self._pair = np.repeat(np.arange(len(references)), [len(texts) for texts in references.values()])
        couples = {couple: number for number, couple in enumerate(dict.fromkeys(all_couples))}
        self._couple = np.array([couples[couple] for couple in all_couples], dtype=np.int64)
        numbers = {text: number for number, text in enumerate(sentences)}
        self._sides = np.array([[numbers[text] for text in couple] for couple in couples]).reshape(-1, 2)
        sides = [(sentences[caption], sentences[reference]) for caption, reference in couples]
        shared = [[(term, b[gram]) for gram, term in a.items() if gram in b] for a, b in sides]
        self._shared = np.array(list(chain.from_iterable(shared)), dtype=np.int64).reshape(-1, 2)
        rows = np.repeat(np.arange(len(couples)), [len(terms) for terms in shared])
        self._shared_slot = rows * LONGEST + self._order[self._shared[:, 0]]
        deltas = np.array([bigrams(caption) - bigrams(reference) for caption, reference in couples])
        self._penalty = np.array([np.e ** (-(float(d) ** 2) / (2 * SIGMA**2)) for d in deltas.tolist()])

    def scores(self, members: Sequence[int]) -> np.ndarray:
        """Return CIDEr-D (0 to 10) of the pairs at the positions `members`.

        The document frequencies are those of these pairs only.
        """
        chosen = np.zeros(self._pairs, dtype=bool)
        chosen[members] = True
        similarity = self._similarities(self._weights(chosen))[self._couple]
        sums = [np.bincount(self._pair, similarity[:, n], self._pairs) for n in range(LONGEST)]
        return (np.stack(sums, 1).mean(1) / np.bincount(self._pair) * 10.0)[members]

    def of_constants(self, texts: Sequence[str]) -> list[float]:
        """Return the corpus's CIDEr-D with each of `texts`, some references, as all pairs' caption.

        The values equal those of `set_captions` and `scores` except for rounding, and are far quicker.
        """
        weight = self._weights(np.ones(self._pairs, dtype=bool))
        own, gram = weight[self._terms], self._gram[self._terms]
        size = self._sentences * LONGEST
        norm = np.sqrt(np.bincount(self._slot, own**2, size)).reshape(-1, LONGEST)
        lengths = np.array([bigrams(text) for text in self._texts])
        rows = {text: row for row, text in enumerate(self._texts)}
        share = np.zeros(self._sentences)  # of each sentence in the mean over pairs and their references
        for own_texts in self._references.values():
            for text in own_texts:
                share[rows[text]] += 1 / (len(own_texts) * self._pairs)
        scores = []
        for text in texts:
            terms = [*self._texts[text].values()]
            caption = np.zeros(self._grams)
            caption[self._gram[terms]] = weight[terms]
            products = np.bincount(self._slot, np.minimum(caption[gram], own) * own, size)
            norms = norm * norm[rows[text]]
            cosine = products.reshape(-1, LONGEST) / np.where(norms == 0, 1, norms)
            penalty = np.exp(-((lengths - bigrams(text)) ** 2) / (2 * SIGMA**2))
            scores.append(float(10 * (cosine.mean(1) * penalty * share).sum()))
        return scores

    def _weights(self, chosen: np.ndarray) -> np.ndarray:
        """Return the tf-idf of each term, (terms,): an n-gram with its count in a sentence.

        Only pairs with a true value in `chosen`, bool (pairs,), count in the document frequencies, unless
        these are given.
        """
        if self._given:
            frequency, number = self._given
        else:
            grams = self._in_document[chosen[self._document]]
            frequency, number = np.bincount(grams, minlength=self._grams), chosen.sum()
        rarity = np.log(float(number)) - np.log(np.maximum(1.0, frequency))
        return self._count * rarity[self._gram]

    def _similarities(self, weight: np.ndarray) -> np.ndarray:
        """Return the similarities of captions and references, (couples, LONGEST).

        A couple is a caption and one of its references. Column n - 1 is for n-grams of n words. A
        similarity is clipped cosine * length penalty. `weight` is the tf-idf of each term, (terms,); a
        term is an n-gram with its count in a sentence.
        """
        # Python's ** gives the library's squares; numpy's may differ in the last bit
        square = np.array([value**2 for value in weight.tolist()])
        size = self._sentences * LONGEST
        norm = np.sqrt(np.bincount(self._slot, square[self._terms], size)).reshape(-1, LONGEST)
        caption, reference = weight[self._shared].T
        products = np.bincount(
            self._shared_slot, np.minimum(caption, reference) * reference, len(self._sides) * LONGEST
        ).reshape(-1, LONGEST)
        norms = norm[self._sides[:, 0]] * norm[self._sides[:, 1]]
        return products / np.where(norms == 0, 1, norms) * self._penalty[:, None]


def _flat(rows: Iterable[Iterable[int]]) -> np.ndarray:
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64)


def bigrams(sentence: str) -> int:
    return max(len(sentence.split()) - 1, 0)
