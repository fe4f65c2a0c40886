"""Captions from a trained model: greedy search, with whatever its decoder keeps of the words so far."""

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
    """The likeliest next word each time: token ids B x L, <START> left out.

    A caption ends with <END>, followed by <NULL>; one that never ends is cut at the model's longest.
    Of words that are equally likely, the one with the lowest id.
    """
    return Greedy(model, difference).run().words


@dataclass(frozen=True)
class Captioned:
    """A batch as a search captioned it. After a caption's end maps and weights say nothing."""

    words: Tensor  # B x L, token ids as `greedy` gives them
    maps: Tensor | None  # B x L x I x N, float16: where each word looked
    weights: Tensor | None  # B x L x K, float16: of what the decoder weighs at each word


@torch.inference_mode()
def greedy_attending(model: Captioner, difference: Difference) -> Captioned:
    """What `greedy` finds, with the decoder's maps and weights of each word."""
    search = Greedy(model, difference, attending=True).run()
    return captioned(search.decoder, search.words, search.looked, search.state)


def captioned(decoder: Decoder[Any], words: Tensor, looked: Tensor | None, state: Any) -> Captioned:
    """Token ids B x L, and what is made of that which the steps gave, B x longest x ..., of these words."""
    looked = None if looked is None else looked[:, : words.shape[1]]
    found = decoder.maps(looked, state), decoder.word_weights(looked)
    return Captioned(words, *(None if each is None else each.half() for each in found))


class Greedy:
    """The captions of a batch, of which those that have ended cost nothing more.

    The first `len(word)` places of `state` are the captions still to be ended: `order` says which they are.
    """

    def __init__(self, model: Captioner, difference: Difference, attending: bool = False):
        B, device = len(difference.before), difference.before.device
        self.decoder, self.longest = model.decoder, model.sizes.longest - 1
        self.never = list(model.never)
        self.state = self.decoder.begin(difference)
        self.words = torch.full((B, self.longest), NULL, device=device)
        self.order = torch.arange(B, device=device)  # which caption stands where in `state`
        self.attending = attending
        self.looked: Tensor | None = None  # B x longest x ..., as the decoder gave it

    def run(self) -> "Greedy":
        """Write all captions; `words` is then as wide as the longest of them."""
        word = torch.full_like(self.order, START)
        for position in range(self.longest):
            rows = self.order[: len(word)]
            step = self.decoder.step(word, position, self.state)
            step.logits[:, self.never] = -torch.inf
            word = self.words[rows, position] = step.logits.argmax(-1)
            self._keep(step.looked, rows, position)
            word = self._leave(word)
            if not len(word):
                break
        self.words = self.words[:, : position + 1]
        return self

    def _keep(self, looked: Tensor | None, rows: Tensor, position: int) -> None:
        """What the decoder will make maps and weights of."""
        if looked is None or not self.attending:
            return
        if self.looked is None:
            self.looked = looked.new_zeros(*self.words.shape, *looked.shape[1:])
        self.looked[rows, position] = looked

    def _leave(self, word: Tensor) -> Tensor:
        """Without those that have ended."""
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
    """Greedy captions of the pairs by pair id, in order, computed in float32."""
    with evaluating(model):
        rows = [
            row
            for difference in differences(model, pairs, store, batch)
            for row in greedy(model, difference).tolist()
        ]
    return {pair.pair_id: vocabulary.decode(row) for pair, row in zip(pairs, rows, strict=True)}


@contextmanager
def evaluating(model: Captioner) -> Iterator[None]:
    """Without dropout; afterwards as it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def differences(
    model: Captioner, pairs: Sequence[Pair], store: FeatureStore, batch: int
) -> Iterator[Difference]:
    """Of `batch` pairs at a time, in order, on the model's device and in float32."""
    device = next(model.parameters()).device
    for before, after in feature_batches(pairs, store, batch):
        yield model.encode(before.to(device).float(), after.to(device).float())
