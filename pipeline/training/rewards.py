"""Rewards of captions for the reward phase after training (reinforce.py).

A reward is between 0 and 1, except for CIDEr-D (0 to 10).
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.io.errors import InputError
from pipeline.scoring.accuracy import PHRASES, says_no_change
from pipeline.scoring.metrics import LONGEST, SIGMA, Ngram, bigrams, ngrams
from pipeline.scoring.sentences import agrees
from pipeline.scoring.truth import judge

Tokenize = Callable[[list[str]], list[str]]
Reward = Callable[[Sequence[Pair], Sequence[str]], list[float]]
"""Function that returns the reward of each caption; pairs[i] belongs to captions[i]."""


def truth(
    pairs: Sequence[Pair], captions: Sequence[str], partial_credit: float, false_alarm: float
) -> list[float]:
    """Return a reward for each caption: 1 if the caption is true for the scene of its pair.

    A false caption of a changed pair has the reward `partial_credit` ** (number of faults). A false caption
    of an unchanged pair (a false alarm) has the reward 1 - `false_alarm`.
    """
    found = []
    for pair, caption in zip(pairs, captions, strict=True):
        verdict = judge(caption, pair)
        assert verdict is not None  # reward_of checked that the scenes are known
        unchanged = pair.change_type == NO_CHANGE
        wrong = 1.0 - false_alarm if unchanged else float(partial_credit ** len(verdict.faults))
        found.append(1.0 if verdict.true else wrong)
    return found


def agreement(pairs: Sequence[Pair], captions: Sequence[str], false_alarm: float) -> list[float]:
    """Return a reward for each caption: 1 if the caption agrees with its references (scoring/sentences.py).

    Any other caption has the reward 0 for a changed pair, and 1 - `false_alarm` for an unchanged pair.
    """
    right = [agrees(caption, pair, PHRASES) for pair, caption in zip(pairs, captions, strict=True)]
    wrong = [1.0 - false_alarm if pair.change_type == NO_CHANGE else 0.0 for pair in pairs]
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
        """Return a dictionary, n-gram -> tf-idf, for each n, and the sentence's number of bigrams."""
        weights: list[dict[Ngram, float]] = [{} for _ in range(LONGEST)]
        for gram, count in ngrams(sentence).items():
            weights[len(gram) - 1][gram] = count * self.rarity.get(gram, self.unseen)
        return weights, bigrams(sentence)

    def _similarity(self, caption: tuple[list[dict[Ngram, float]], int], text: str) -> float:
        (one, length), (other, longer) = caption, self.vectors[text]
        penalty = math.exp(-((length - longer) ** 2) / (2 * SIGMA**2))
        return 10.0 * penalty * float(np.mean([_clipped(*each) for each in zip(one, other, strict=True)]))


def _clipped(caption: Mapping[Ngram, float], reference: Mapping[Ngram, float]) -> float:
    """Return the similarity of the tf-idf vectors of a caption and a reference.

    It is the cosine, with one difference: in the dot product, the caption's weight of an n-gram is at most
    the reference's weight. It is 0 if a vector is zero.
    """
    shared = sum(min(caption[gram], weight) * weight for gram, weight in reference.items() if gram in caption)
    norms = math.sqrt(sum(x * x for x in caption.values()) * sum(x * x for x in reference.values()))
    return shared / norms if norms else 0.0


def random(pairs: Sequence[Pair], captions: Sequence[str]) -> list[float]:
    """Return a random reward, 0 or 1, for each caption, from torch's global generator (a control)."""
    return torch.randint(2, (len(captions),)).double().tolist()


def constant(pairs: Sequence[Pair], captions: Sequence[str]) -> list[float]:
    """Return the reward 1 for every caption (a control): only the cross-entropy trains the model."""
    return [1.0] * len(captions)


def reward_of(settings: Mapping[str, Any], pairs: Sequence[Pair], tokenize: Tokenize) -> Reward:
    """Return the reward that the settings name. Raises InputError if it needs scenes, but a pair has none."""
    match settings["reward"]:
        case "truth":
            if lacking := next((pair.pair_id for pair in pairs if pair.scene is None), None):
                raise InputError(f"reinforce.reward: truth needs the scene of {lacking}; set it to CIDEr-D")
            costs = {name: settings[name] for name in ("partial_credit", "false_alarm")}
            return partial(truth, **costs)
        case "agrees":
            return partial(agreement, false_alarm=settings["false_alarm"])
        case "CIDEr-D":
            return CiderD(pairs, tokenize)
        case "random":
            return random
    return constant


def tells_change(captions: Sequence[str]) -> list[float]:
    """Return 1 for each caption that reports a change, and 0 for the other captions."""
    return [float(not says_no_change(caption, PHRASES)) for caption in captions]
