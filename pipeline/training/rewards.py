"""Rewards of captions for the reward phase after training (reinforce.py).

A reward is between 0 and 1, except for CIDEr-D (0 to 10).
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.io.errors import InputError
from pipeline.scoring.accuracy import PHRASES, says_no_change
from pipeline.scoring.metrics import LONGEST, SIGMA, Ngram, bigrams, ngrams
from pipeline.scoring.sentences import agrees
from pipeline.scoring.truth import judge

Tokenize = Callable[[list[str]], list[str]]


class Reward(Protocol):
    """Protocol of a function that returns the reward of each caption; pairs[i] belongs to captions[i]."""

    def __call__(self, pairs: Sequence[Pair], captions: Sequence[str]) -> list[float]: ...


class Truth:
    """Reward that depends on the truth of a caption, judged by the scene of the pair.

    A true caption has the reward 1. A false caption of a changed pair has the reward
    `partial_credit` ** (number of faults). A false caption of an unchanged pair (a false alarm) has the
    reward 1 - `false_alarm`. Raises InputError if the scene of a pair is unknown.
    """

    def __init__(self, pairs: Sequence[Pair], partial_credit: float, false_alarm: float):
        if lacking := next((pair.pair_id for pair in pairs if pair.scene is None), None):
            raise InputError(f"reinforce.reward: truth needs the scene of {lacking}; set it to CIDEr-D")
        self.partial_credit, self.false_alarm = partial_credit, false_alarm

    def __call__(self, pairs: Sequence[Pair], captions: Sequence[str]) -> list[float]:
        return [self._of(pair, caption) for pair, caption in zip(pairs, captions, strict=True)]

    def _of(self, pair: Pair, caption: str) -> float:
        verdict = judge(caption, pair)
        assert verdict is not None  # __init__ checked that the scenes are known
        if verdict.true:
            return 1.0
        if pair.change_type == NO_CHANGE:
            return 1.0 - self.false_alarm
        return float(self.partial_credit ** len(verdict.faults))


class Agreement:
    """Reward that depends on the agreement of a caption with its references (scoring/sentences.py).

    A caption that agrees has the reward 1. Any other caption has the reward 0 for a changed pair, and 1 -
    `false_alarm` for an unchanged pair.
    """

    def __init__(self, false_alarm: float):
        self.false_alarm = false_alarm

    def __call__(self, pairs: Sequence[Pair], captions: Sequence[str]) -> list[float]:
        right = [agrees(caption, pair, PHRASES) for pair, caption in zip(pairs, captions, strict=True)]
        wrong = [1.0 - self.false_alarm if pair.change_type == NO_CHANGE else 0.0 for pair in pairs]
        return [1.0 if found else other for found, other in zip(right, wrong, strict=True)]


class CiderD:
    """Reward CIDEr-D, from 0 to 10, with the document frequencies of the training references.

    `tokenize` splits the references into words, as for the scores. The model's captions are not tokenised,
    because they consist of words of the vocabulary.
    """

    def __init__(self, pairs: Sequence[Pair], tokenize: Tokenize):
        sentences = iter(tokenize([caption for pair in pairs for caption in pair.captions]))
        own = {pair.pair_id: [next(sentences) for _ in pair.captions] for pair in pairs}
        documents = Counter(gram for texts in own.values() for gram in set().union(*map(ngrams, texts)))
        self.rarity = {gram: math.log(len(own)) - math.log(number) for gram, number in documents.items()}
        self.unseen = math.log(len(own))
        self.vectors = {text: self._vector(text) for texts in own.values() for text in texts}
        self.references = own

    def __call__(self, pairs: Sequence[Pair], captions: Sequence[str]) -> list[float]:
        return [self._of(pair, caption) for pair, caption in zip(pairs, captions, strict=True)]

    def _of(self, pair: Pair, caption: str) -> float:
        own = self._vector(caption)
        return float(np.mean([self._similarity(own, text) for text in self.references[pair.pair_id]]))

    def _vector(self, sentence: str) -> tuple[list[dict[Ngram, float]], int]:
        """Return the tf-idf weights of a sentence's n-grams, and the number of its bigrams.

        The first result is a list with a dictionary for each n: n-gram -> tf-idf.
        """
        weights: list[dict[Ngram, float]] = [{} for _ in range(LONGEST)]
        for gram, count in ngrams(sentence).items():
            weights[len(gram) - 1][gram] = count * self.rarity.get(gram, self.unseen)
        return weights, bigrams(sentence)

    def _similarity(self, caption: tuple[list[dict[Ngram, float]], int], text: str) -> float:
        (one, length), (other, longer) = caption, self.vectors[text]
        penalty = math.exp(-((length - longer) ** 2) / (2 * SIGMA**2))
        return 10.0 * penalty * float(np.mean([_clipped(*each) for each in zip(one, other, strict=True)]))


def _clipped(caption: Mapping[Ngram, float], reference: Mapping[Ngram, float]) -> float:
    """Return the clipped cosine similarity of two sentences, given their n-gram weights.

    In the dot product, each weight of the caption is clipped to the reference's weight of the same n-gram.
    """
    shared = sum(min(caption[gram], weight) * weight for gram, weight in reference.items() if gram in caption)
    norms = math.sqrt(sum(x * x for x in caption.values()) * sum(x * x for x in reference.values()))
    return shared / norms if norms else 0.0


def random(pairs: Sequence[Pair], captions: Sequence[str]) -> list[float]:
    """Return a random reward, 0 or 1, for each caption, as a control experiment.

    It uses torch's global generator.
    """
    return torch.randint(2, (len(captions),)).double().tolist()


def constant(pairs: Sequence[Pair], captions: Sequence[str]) -> list[float]:
    """Return the reward 1 for every caption, as a control experiment.

    The model is then trained only by the cross-entropy.
    """
    return [1.0] * len(captions)


def reward_of(settings: Mapping[str, Any], pairs: Sequence[Pair], tokenize: Tokenize) -> Reward:
    """Return the reward function that the settings name.

    Raises InputError if the reward needs the scenes of the pairs and a scene is unknown.
    """
    match settings["reward"]:
        case "truth":
            return Truth(pairs, settings["partial_credit"], settings["false_alarm"])
        case "agrees":
            return Agreement(settings["false_alarm"])
        case "CIDEr-D":
            return CiderD(pairs, tokenize)
        case "random":
            return random
        case kind:
            assert kind == "constant"  # the types of params.yaml allow no other name
            return constant


def tells_change(captions: Sequence[str]) -> list[float]:
    """Return 1 for each caption that reports a change, and 0 for the other captions."""
    return [float(not says_no_change(caption, PHRASES)) for caption in captions]
