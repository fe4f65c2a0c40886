"""Greedy search, which appends the most likely next word to a caption at each position; and sampling.

B: pairs; L: tokens of the longest caption that was found; longest: the model's limit of tokens; I: attention
maps per word; N: cells of an image; K: number of inputs to which the decoder gives a weight for each word; R:
captions that have not ended; V: size of the vocabulary.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from models.common.captioner import Captioner, Difference, rows
from models.common.decoder_protocol import Decoder, Exchange
from models.common.trainable import KINDS, Labels
from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.features.store import FeatureStore, feature_batches
from pipeline.text.vocabularies import END, NULL, START, Vocabulary


@torch.inference_mode()
def greedy(model: Captioner, difference: Difference) -> Tensor:
    """Return the most likely tokens, (B, L), without <START>, padded with <NULL>; on a tie the lowest id."""
    return Greedy(model, difference).run().words


@dataclass(frozen=True)
class Captioned:
    """Captions of a batch, with attention. Maps and weights after a caption's end are meaningless."""

    words: Tensor  # (B, L), token ids, as `greedy` returns them
    maps: Tensor | None  # (B, L, I, N), float16: attention of each word
    weights: Tensor | None  # (B, L, K), float16: weights of the decoder's inputs at each word


@torch.inference_mode()
def greedy_attending(model: Captioner, difference: Difference) -> Captioned:
    """Return the captions that `greedy` returns, with attention."""
    search = Greedy(model, difference, attending=True).run()
    return captioned(search.decoder, search.words, search.attention, search.state)


def captioned(decoder: Decoder[Any], words: Tensor, attention: Tensor | None, state: Any) -> Captioned:
    """Return captions, (B, L), with the attention of `NextWord.trace`, (B, limit, ...), if there is any."""
    attention = None if attention is None else attention[:, : words.shape[1]]
    maps, weights = decoder.maps(attention, state), decoder.word_weights(attention)
    return Captioned(words, *(None if values is None else values.half() for values in (maps, weights)))


class Greedy:
    """Greedy search over a batch. Nothing is computed for captions that have ended.

    The first rows of `state` are the captions that have not ended; `order` holds their indices in the batch.
    """

    def __init__(self, model: Captioner, difference: Difference, attending: bool = False):
        B, device = len(difference.before), difference.before.device
        self.decoder, self.longest = model.decoder, model.sizes.longest - 1
        self.never, self.ends = list(model.never), torch.tensor(model.ends, device=device)
        self.state = self.decoder.begin(difference)
        self.words = torch.full((B, self.longest), NULL, device=device)
        self.order = torch.arange(B, device=device)  # index of the caption at each row of `state`
        self.attending = attending
        self.attention: Tensor | None = None  # (B, longest, ...), attention of each token

    def run(self) -> Self:
        """Decode all captions, cut `words` to the length of the longest caption, and return `self`."""
        word = torch.full_like(self.order, START)
        for position in range(self.longest):
            rows = self.order[: len(word)]
            step = self.decoder.step(word, position, self.state)
            step.logits[:, self.never] = -torch.inf
            word = self.words[rows, position] = self._choose(step.logits)
            self._store_attention(step.trace, rows, position)
            word = self._remove_ended(word)
            if not len(word):
                break
        self.words = self.words[:, : position + 1]
        return self

    def _choose(self, logits: Tensor) -> Tensor:
        return logits.argmax(-1)

    def _store_attention(self, step_attention: Tensor | None, rows: Tensor, position: int) -> None:
        """Store the attention at one step, if there is any, of the captions with the indices `rows`."""
        if step_attention is None or not self.attending:
            return
        if self.attention is None:
            self.attention = step_attention.new_zeros(*self.words.shape, *step_attention.shape[1:])
        self.attention[rows, position] = step_attention

    def _remove_ended(self, word: Tensor) -> Tensor:
        """Remove the captions that end with their last `word`; return the others' last words."""
        ended = torch.isin(word, self.ends)
        exchange = Exchange(ended)
        if exchange.left < len(word):
            self.state.leave(ended)
            exchange.apply(self.order)
            exchange.move(word)
        return word[: exchange.left]


class Sampling(Greedy):
    """Search that draws each word at random, with torch's global generator.

    `log_p`, (B,), is the log-probability of each caption.
    """

    def __init__(self, model: Captioner, difference: Difference):
        super().__init__(model, difference)
        self.ends = torch.tensor([END], device=self.order.device)  # log_p counts all tokens up to <END>
        self.log_p = torch.zeros(len(self.order), device=self.order.device)

    def _choose(self, logits: Tensor) -> Tensor:
        log_p = logits.float().log_softmax(-1)
        word = torch.multinomial(log_p.exp(), 1)
        self.log_p[self.order[: len(word)]] += log_p.gather(-1, word)[:, 0]
        return word[:, 0]


@torch.no_grad()
def sample(model: Captioner, difference: Difference, samples: int) -> tuple[Tensor, Tensor]:
    """Draw captions of each of B pairs: tokens, (B * samples, L), and log-probabilities, (B * samples,)."""
    repeated = rows(difference, lambda x: x.repeat_interleave(samples, 0))
    search = Sampling(model, repeated).run()
    return search.words, search.log_p


@torch.inference_mode()
def captions(
    model: Captioner,
    pairs: Sequence[Pair],
    store: FeatureStore,
    vocabulary: Vocabulary,
    batch: int,
) -> dict[str, str]:
    """Return pair id -> caption by greedy search, in the order of the pairs, computed in float32."""
    with evaluating(model):
        texts = [
            vocabulary.decode(row)
            for difference in differences(model, pairs, store, batch)
            for row in greedy(model, difference).tolist()
        ]
    return dict(zip([pair.pair_id for pair in pairs], texts, strict=True))


@contextmanager
def evaluating(model: Captioner) -> Iterator[None]:
    """Switch the model to evaluation mode for a `with` block, and restore its previous mode afterwards."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def differences(
    model: Captioner, pairs: Sequence[Pair], store: FeatureStore, batch: int, labelled: bool = False
) -> Iterator[Difference]:
    """Yield the model's Difference for each batch of pairs, in float32 on the model's device.

    With `labelled`, the pairs' kinds open the gate of a model with routers (decode.labelled_gate).
    """
    device = next(model.parameters()).device
    starts = range(0, len(pairs), batch)
    for start, (before, after) in zip(starts, feature_batches(pairs, store, batch), strict=True):
        labels = labels_of(pairs[start : start + batch], device) if labelled and model.kinds else None
        yield model.encode(before.to(device).float(), after.to(device).float(), labels)


def labels_of(pairs: Sequence[Pair], device: torch.device) -> Labels:
    """Return the kinds of the pairs as Labels."""
    kinds = torch.tensor([KINDS.index(str(pair.change_type)) for pair in pairs], device=device)
    return Labels((kinds != KINDS.index(NO_CHANGE)).long(), kinds=kinds)
