"""Greedy search.

B: pairs; L: tokens of the longest caption found; longest: the model's limit of tokens; I: maps per word;
N: cells; K: decoder weights per word; R: captions in progress; V: size of the vocabulary.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from models.common.captioner import Captioner, Difference
from models.common.decoder_protocol import Decoder, Exchange
from pipeline.datasets.schema import Pair
from pipeline.features.store import FeatureStore, feature_batches
from pipeline.text.vocabularies import END, NULL, START, Vocabulary


@torch.inference_mode()
def greedy(model: Captioner, difference: Difference) -> Tensor:
    """Return the captions of greedy search: token ids `(B, L)` without <START>.

    A caption ends with <END>, followed by <NULL>; if it does not end, it is cut at the model's limit. Ties go
    to the lowest word id.
    """
    return Greedy(model, difference).run().words


@dataclass(frozen=True)
class Captioned:
    """Captions of a batch. Maps and weights after a caption's end are meaningless."""

    words: Tensor  # (B, L), token ids in the form of `greedy`
    maps: Tensor | None  # (B, L, I, N), float16: attention of each word
    weights: Tensor | None  # (B, L, K), float16: decoder weights of each word


@torch.inference_mode()
def greedy_attending(model: Captioner, difference: Difference) -> Captioned:
    """Return the captions of `greedy`, with the decoder's maps and weights of each word."""
    search = Greedy(model, difference, attending=True).run()
    return captioned(search.decoder, search.words, search.looked, search.state)


def captioned(decoder: Decoder[Any], words: Tensor, looked: Tensor | None, state: Any) -> Captioned:
    """Compute maps and weights for token ids `(B, L)` from the steps' attention `(B, longest, ...)`."""
    looked = None if looked is None else looked[:, : words.shape[1]]
    found = decoder.maps(looked, state), decoder.word_weights(looked)
    return Captioned(words, *(None if each is None else each.half() for each in found))


class Greedy:
    """Greedy search over a batch; captions that have ended are no longer computed.

    The first `len(word)` rows of `state` are the unfinished captions; `order` holds their indices.
    """

    def __init__(self, model: Captioner, difference: Difference, attending: bool = False):
        B, device = len(difference.before), difference.before.device
        self.decoder, self.longest = model.decoder, model.sizes.longest - 1
        self.never = list(model.never)
        self.state = self.decoder.begin(difference)
        self.words = torch.full((B, self.longest), NULL, device=device)
        self.order = torch.arange(B, device=device)  # index of the caption at each row of `state`
        self.attending = attending
        self.looked: Tensor | None = None  # (B, longest, ...), attention as returned by the decoder

    def run(self) -> "Greedy":
        """Decode all captions; afterwards `words` has the width of the longest."""
        word = torch.full_like(self.order, START)
        for position in range(self.longest):
            rows = self.order[: len(word)]
            step = self.decoder.step(word, position, self.state)
            step.logits[:, self.never] = -torch.inf
            word = self.words[rows, position] = self._choose(step.logits)
            self._keep(step.looked, rows, position)
            word = self._leave(word)
            if not len(word):
                break
        self.words = self.words[:, : position + 1]
        return self

    def _choose(self, logits: Tensor) -> Tensor:
        """The likeliest word of each caption: logits (R, V) -> token ids (R)."""
        return logits.argmax(-1)

    def _keep(self, looked: Tensor | None, rows: Tensor, position: int) -> None:
        """Keep the step's attention, from which the decoder later computes maps and weights."""
        if looked is None or not self.attending:
            return
        if self.looked is None:
            self.looked = looked.new_zeros(*self.words.shape, *looked.shape[1:])
        self.looked[rows, position] = looked

    def _leave(self, word: Tensor) -> Tensor:
        """Remove ended captions from the computation; return the words of the others."""
        ended = word == END
        places = Exchange(ended)
        if places.left < len(word):
            self.state.leave(ended)
            places.apply(self.order)
            places.move(word)
        return word[: places.left]


@torch.inference_mode()
def captions(
    model: Captioner,
    pairs: Sequence[Pair],
    store: FeatureStore,
    vocabulary: Vocabulary,
    batch: int,
) -> dict[str, str]:
    """Return greedy captions by pair id, in order, computed in float32."""
    with evaluating(model):
        rows = [
            row
            for difference in differences(model, pairs, store, batch)
            for row in greedy(model, difference).tolist()
        ]
    return {pair.pair_id: vocabulary.decode(row) for pair, row in zip(pairs, rows, strict=True)}


@contextmanager
def evaluating(model: Captioner) -> Iterator[None]:
    """Switch the model to evaluation mode, and restore its mode afterwards."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def differences(
    model: Captioner, pairs: Sequence[Pair], store: FeatureStore, batch: int
) -> Iterator[Difference]:
    """Yield the differences of `batch` pairs at a time, in order, in float32 on the model's device."""
    device = next(model.parameters()).device
    for before, after in feature_batches(pairs, store, batch):
        yield model.encode(before.to(device).float(), after.to(device).float())
