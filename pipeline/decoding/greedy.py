"""Captions from a trained model: greedy search with cached keys and values."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from models.captioner import Captioner, Difference
from models.decoder import Exchange
from pipeline.datasets.schema import Pair
from pipeline.features.reading import feature_batches
from pipeline.features.store import FeatureStore
from pipeline.vocabularies import END, NULL, START, Vocabulary


@torch.inference_mode()
def greedy(model: Captioner, memory: Tensor) -> Tensor:
    """The likeliest next word each time: memory B x N x D -> token ids B x L, <START> left out.

    A caption ends with <END>, followed by <NULL>; one that never ends is cut at the model's longest.
    Of words that are equally likely, the one with the lowest id.
    """
    return Greedy(model, memory).run().words


@torch.inference_mode()
def greedy_attending(model: Captioner, memory: Tensor) -> tuple[Tensor, Tensor]:
    """What `greedy` finds, and where the decoder's last layer looked for each word: B x L x N, float16.

    After a caption's end there is nothing to see in the maps.
    """
    search = Greedy(model, memory, attending=True).run()
    return search.words, search.maps()


class Greedy:
    """The captions of a batch, of which those that have ended cost nothing more.

    The first `len(rows)` rows of `past` are the captions still to be ended: `rows` says which they are.
    """

    def __init__(self, model: Captioner, memory: Tensor, attending: bool = False):
        self.decoder, self.never = model.decoder, list(model.never)
        self.past = self.decoder.begin(memory)
        self.longest = model.sizes.longest - 1
        self.words = torch.full((len(memory), self.longest), NULL, device=memory.device)
        self.order = torch.arange(len(memory), device=memory.device)  # which caption stands where in `past`
        _, h, _, d = self.past[-1].memory_keys.shape
        self.queries = memory.new_zeros(len(memory), h, self.longest, d) if attending else None

    def run(self) -> "Greedy":
        """Write all captions; `words` is then as wide as the longest of them."""
        word = torch.full_like(self.order, START)
        for position in range(self.longest):
            rows = self.order[: len(word)]
            step = self.decoder.step(word, position, self.past)
            step.logits[:, self.never] = -torch.inf
            word = self.words[rows, position] = step.logits.argmax(-1)
            if self.queries is not None:
                self.queries[rows, :, position] = step.queries[:, :, 0]
            word = self._leave(word)
            if not len(word):
                break
        self.words = self.words[:, : position + 1]
        return self

    def _leave(self, word: Tensor) -> Tensor:
        """Without those that have ended."""
        places = Exchange(word == END)
        if places.left < len(word):
            for kept in self.past:
                kept.leave(places)
            places.apply(self.order)
            places.move(word)
        return word[: places.left]

    def maps(self) -> Tensor:
        """Where each word looked: B x L x N."""
        assert self.queries is not None  # it is attending
        queries = self.queries[self.order, :, : self.words.shape[1]]  # as they stand in `past`
        maps = self.decoder.attention(queries, self.past).half()
        return maps[self.order.argsort()]


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
            for row in greedy(model, difference.memory).tolist()
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
