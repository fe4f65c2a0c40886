"""Make negatives of captions of coloured solids: CLEVR-Change, CLEVR-DC, tabletop.

The functions at the end of the file replace words or exchange parts of a sentence. They return None for a
sentence in which nothing can be replaced or exchanged.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

import numpy as np

from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.judging.references import JointClaims, contradicts, joint, of_pair
from pipeline.judging.strict import MEANING, Sentence
from pipeline.tabletop.words import SYNONYMS
from pipeline.text import vocabularies

Words = tuple[str, ...]
MOST = 20_000  # maximum number of captions in the index


class Index:
    """TF-IDF index of n captions, each stored as a unit vector of word weights.

    Before normalisation, the weight of a word is count × (1 + ln((1 + n) / (1 + df))), where count is how
    often the word is in the caption, and df is the number of captions with this word.
    """

    def __init__(self, documents: Iterable[str]):
        """Index the captions `documents`: tokens joined by single spaces. Equal captions count once."""
        self.documents = sorted(set(documents))
        counts = [Counter(text.split()) for text in self.documents]
        self._having = Counter(word for word_counts in counts for word in word_counts)
        self._places: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for number, word_counts in enumerate(counts):
            for word, value in self._vector(word_counts).items():
                self._places[word].append((number, value))

    def weights(self, words: Sequence[str]) -> dict[str, float]:
        """Return word -> TF-IDF weight, not normalised; words in no caption have document frequency 0."""
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


class Geometric:
    """The captions of a split, from which the negatives (wrong captions) of its pairs are made.

    At most MOST captions that report a change are in a TF-IDF index. Captions that report no
    change are in a list.
    """

    def __init__(self, pairs: Sequence[Pair], training: Sequence[str], rng: np.random.Generator):
        self.of_scene: dict[str, list[str]] = defaultdict(list)  # scene -> captions of its change
        no_changes: set[str] = set()
        for pair in pairs:
            texts = [plain(caption) for caption in pair.captions]
            # CLEVR-DC does not mark unchanged pairs, so the captions decide
            if of_pair(pair, [_sentence(text).claim for text in texts]).kinds == {NO_CHANGE}:
                no_changes |= {*texts}
            else:
                self.of_scene[pair.scene_id] += texts
        self.no_changes = sorted(no_changes)
        changes = {text for texts in self.of_scene.values() for text in texts}
        self.index = Index(drawn(sorted(changes), MOST, rng))
        self.endings = _endings(self.index.documents)

    def source(self, pair: Pair, references: Sequence[str], rng: np.random.Generator) -> "GeometricSource":
        return GeometricSource(self, pair, [plain(caption) for caption in references], rng)


class GeometricSource:
    """Source of candidates for the negatives of one pair."""

    certain = True

    def __init__(self, split: Geometric, pair: Pair, references: Sequence[str], rng: np.random.Generator):
        self._split, self._pair, self._rng = split, pair, rng
        self._references = [_sentence(text) for text in references]
        self._truth = of_pair(pair, [sentence.claim for sentence in self._references])
        self._unchanged = self._truth.kinds == {NO_CHANGE}

    def wrong(self, caption: str) -> bool:
        return contradicts(joint([_sentence(caption).claim]), self._truth)

    def retrieve(self, number: int) -> Iterator[str]:
        """Yield captions of the split that are candidates for a negative; `number` counts the calls.

        - Unchanged pair: captions that report a change, at first those of the same scene.
        - Changed pair, `number` is 1: captions that report no change. Otherwise a model could learn in the
          pre-training task FDA that such captions are never negatives.
        - Changed pair, otherwise: captions that report a change, those most similar to a reference first.
        """
        if self._unchanged:
            scene_captions = self._split.of_scene.get(self._pair.scene_id, []) if number < 2 else []
            yield from self._uniform(scene_captions)
            yield from self._uniform(self._split.index.documents)
        elif number == 1 and self._split.no_changes:
            yield from self._uniform(self._split.no_changes)
        else:
            reference = self._references[number % len(self._references)]
            yield from self._split.index.ranked(reference.words)

    def replace(self, number: int) -> Iterator[str | None]:
        """Yield references in turn with one word (or two, if `number` is odd) replaced, or None."""
        for sentence in self._turns(number):
            weights = self._split.index.weights(sentence.words)
            yield _text(_replaced(sentence, self._truth, weights, 1 + number % 2, self._rng))

    def confuse(self, number: int) -> Iterator[str | None]:
        """Yield references in turn with two parts exchanged, or None if this is impossible.

        If `number` is even, these are subject and landmark, else old and new value. Without values, the
        ending ("has been added") is replaced with one of the opposite change.
        """
        for sentence in self._turns(number):
            if number % 2 == 0:
                yield _text(_exchanged_landmark(sentence))
            else:
                yield _text(
                    _exchanged_values(sentence) or _exchanged_ending(sentence, self._split.endings, self._rng)
                )

    def _turns(self, number: int) -> Iterator[Sentence]:
        """Yield the references in an endless cycle, from index `number` on; nothing for an unchanged pair."""
        if not self._unchanged:
            yield from (self._references[turn % len(self._references)] for turn in count(number))

    def _uniform(self, texts: Sequence[str]) -> Iterator[str]:
        yield from (texts[index] for index in self._rng.permutation(len(texts)))


def plain(caption: str) -> str:
    return " ".join(vocabularies.tokenise(caption, lower_case=True))


def drawn(texts: Sequence[str], most: int, rng: np.random.Generator) -> list[str]:
    """Return at most `most` of the texts, chosen at random and in their original order."""
    if len(texts) <= most:
        return list(texts)
    return [texts[index] for index in sorted(rng.choice(len(texts), most, replace=False))]


def _sentence(text: str) -> Sentence:
    return Sentence(tuple(text.split()))


def _endings(documents: Sequence[str]) -> dict[str, list[Words]]:
    """Return a dictionary: kind of change -> distinct sentence endings (the words after the last noun)."""
    endings: dict[str, set[Words]] = defaultdict(set)
    for sentence in map(_sentence, documents):
        for kind in sentence.claim.changes:
            endings[kind].add(sentence.words[sentence.ending.start :])
    return {kind: sorted(texts) for kind, texts in endings.items()}


def _text(words: Words | None) -> str | None:
    return None if words is None else " ".join(words)


def _replaced(
    sentence: Sentence, truth: JointClaims, weights: Mapping[str, float], count: int, rng: np.random.Generator
) -> Words | None:
    """Return the sentence with at most `count` words replaced; None if no word can be replaced.

    Only the subject's attributes and the new colour or material can be replaced. Words with the largest
    `weights` (word -> TF-IDF weight) are replaced first. `truth` has the claims of the references. A
    colour in these claims never becomes the new colour.
    """
    words = list(sentence.words)
    indices = sentence.attributes + ([] if sentence.value is None else [sentence.value])
    changed = 0
    for index in sorted(indices, key=lambda index: (-weights[sentence.words[index]], index)):
        attribute, value = MEANING[words[index]]
        barred = _barred(sentence, words, index, attribute, truth) | {value}
        groups = [group for other, group in SYNONYMS[attribute].items() if other not in barred]
        if groups and changed < count:
            group = groups[int(rng.integers(len(groups)))]
            words[index] = group[int(rng.integers(len(group)))]
            changed += 1
    return tuple(words) if changed else None


def _barred(
    sentence: Sentence, words: Sequence[str], index: int, attribute: str, truth: JointClaims
) -> set[str]:
    """Return the values that must not replace the word `words[index]` when a negative is made.

    In "the red cube turned blue", the old value "red" must not become "blue", and the new value "blue"
    must not become "red". If the word is a new color, the colors in the references are also returned.
    `attribute` is the word's attribute, such as "color". `truth` has the claims of the references.
    """
    if index != sentence.value:
        new = None if sentence.value is None else MEANING[words[sentence.value]]
        return {new[1]} if new and new[0] == attribute else set()
    subject = {MEANING[words[i]][1] for i in sentence.attributes if MEANING[words[i]][0] == attribute}
    if attribute != "color":
        return subject
    return subject | set(truth.look.get(attribute, ())) | set(truth.value.get(attribute, ()))


def _exchanged_landmark(sentence: Sentence) -> Words | None:
    """Return the sentence with subject and landmark exchanged; None if it lacks one of them.

    The articles stay in their places.
    """
    subject, landmark, words = sentence.subject, sentence.landmark, sentence.words
    if not subject or not landmark:
        return None
    between = words[subject.stop : landmark.start]
    exchanged = (*words[landmark.start : landmark.stop], *between, *words[subject.start : subject.stop])
    return (*words[: subject.start], *exchanged, *words[landmark.stop :])


def _exchanged_values(sentence: Sentence) -> Words | None:
    """Exchange the old and the new value (colour or material) in a sentence, and return its words.

    For example, "the red cube became blue" becomes "the blue cube became red". Returns None if the
    sentence lacks the old or the new value.
    """
    if sentence.value is None:
        return None
    words = list(sentence.words)
    attribute = MEANING[words[sentence.value]][0]
    old_indices = [index for index in sentence.attributes if MEANING[words[index]][0] == attribute]
    if not old_indices:
        return None
    words[old_indices[0]], words[sentence.value] = words[sentence.value], words[old_indices[0]]
    return tuple(words)


def _exchanged_ending(
    sentence: Sentence, endings: Mapping[str, Sequence[Words]], rng: np.random.Generator
) -> Words | None:
    """Turn the sentence of an added object into that of a removed one, or the reverse, or None."""
    opposite = {"add": "drop", "drop": "add"}.get(sentence.claim.kind, "")
    if not endings.get(opposite):
        return None
    ending = endings[opposite][int(rng.integers(len(endings[opposite])))]
    return (*sentence.words[: sentence.ending.start], *ending)
