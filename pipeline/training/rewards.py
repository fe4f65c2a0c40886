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
from pipeline.scoring.accuracy import PHRASES
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
    rewards = []
    for pair, caption in zip(pairs, captions, strict=True):
        verdict = judge(caption, pair)
        assert verdict is not None  # reward_of checked that the scenes are known
        unchanged = pair.change_type == NO_CHANGE
        false_reward = 1.0 - false_alarm if unchanged else float(partial_credit ** len(verdict.faults))
        rewards.append(1.0 if verdict.true else false_reward)
    return rewards


def agreement(pairs: Sequence[Pair], captions: Sequence[str], false_alarm: float) -> list[float]:
    """Return a reward for each caption: 1 if the caption agrees with its references (scoring/sentences.py).

    Any other caption has the reward 0 for a changed pair, and 1 - `false_alarm` for an unchanged pair.
    """
    rewards = []
    for pair, caption in zip(pairs, captions, strict=True):
        false_reward = 1.0 - false_alarm if pair.change_type == NO_CHANGE else 0.0
        rewards.append(1.0 if agrees(caption, pair, PHRASES) else false_reward)
    return rewards


class CiderD:
    """Reward CIDEr-D, from 0 to 10, with the document frequencies of the training references.

    `tokenize` is the tokeniser for the references. The model's captions are not tokenised, because they
    consist of words of the vocabulary.
    """

    def __init__(self, pairs: Sequence[Pair], tokenize: Tokenize):
        sentences = iter(tokenize([caption for pair in pairs for caption in pair.captions]))
        self.references = {pair.pair_id: [next(sentences) for _ in pair.captions] for pair in pairs}
        documents = self.references.values()
        counts = Counter(gram for texts in documents for gram in set().union(*map(ngrams, texts)))
        self.unseen = math.log(len(documents))
        self.rarity = {gram: self.unseen - math.log(count) for gram, count in counts.items()}
        self.vectors = {text: self._vector(text) for texts in documents for text in texts}

    def __call__(self, pairs: Sequence[Pair], captions: Sequence[str]) -> list[float]:
        rewards = []
        for pair, caption in zip(pairs, captions, strict=True):
            vector = self._vector(caption)
            similarities = [self._similarity(vector, text) for text in self.references[pair.pair_id]]
            rewards.append(float(np.mean(similarities)))
        return rewards

    def _vector(self, sentence: str) -> tuple[list[dict[Ngram, float]], int]:
        """Return a dictionary, n-gram -> tf-idf, for each n, and the sentence's number of bigrams."""
        weights: list[dict[Ngram, float]] = [{} for _ in range(LONGEST)]
        for gram, count in ngrams(sentence).items():
            weights[len(gram) - 1][gram] = count * self.rarity.get(gram, self.unseen)
        return weights, bigrams(sentence)

    def _similarity(self, caption: tuple[list[dict[Ngram, float]], int], text: str) -> float:
        (vectors, length), (text_vectors, text_length) = caption, self.vectors[text]
        penalty = math.exp(-((length - text_length) ** 2) / (2 * SIGMA**2))
        similarities = [_clipped(*both) for both in zip(vectors, text_vectors, strict=True)]
        return 10.0 * penalty * float(np.mean(similarities))


def _clipped(caption: Mapping[Ngram, float], reference: Mapping[Ngram, float]) -> float:
    """Return the similarity of the tf-idf vectors of a caption and a reference.

    It is the cosine, with one difference: in the dot product, the caption's weight of an n-gram is at most
    the reference's weight. It is 0 if a vector is zero.
    """
    dot = sum(min(caption[gram], weight) * weight for gram, weight in reference.items() if gram in caption)
    norms = math.sqrt(sum(x * x for x in caption.values()) * sum(x * x for x in reference.values()))
    return dot / norms if norms else 0.0


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
            if unknown := next((pair.pair_id for pair in pairs if pair.scene is None), None):
                raise InputError(f"reinforce.reward: truth needs the scene of {unknown}; set it to CIDEr-D")
            costs = {name: settings[name] for name in ("partial_credit", "false_alarm")}
            return partial(truth, **costs)
        case "agrees":
            return partial(agreement, false_alarm=settings["false_alarm"])
        case "CIDEr-D":
            return CiderD(pairs, tokenize)
        case "random":
            return random
    return constant
