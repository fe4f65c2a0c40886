"""Captions from a trained model: greedy search with cached keys and values."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from models.captioner import Captioner, Difference
from models.decoder import NextWord, Past
from pipeline.batches import feature_batches
from pipeline.datasets.schema import Pair
from pipeline.store import FeatureStore
from pipeline.text import END, NULL, START, UNK, Vocabulary

NEVER = (NULL, UNK, START)  # tokens that are not words of a caption


@torch.inference_mode()
def greedy(model: Captioner, memory: Tensor) -> Tensor:
    """The likeliest next word each time: memory B x N x D -> token ids B x L, <START> left out.

    A caption ends with <END>, followed by <NULL>; one that never ends is cut at the model's longest.
    """
    return torch.stack([word for word, _ in _search(model, model.decoder.begin(memory), memory)], 1)


@torch.inference_mode()
def greedy_attending(model: Captioner, memory: Tensor) -> tuple[Tensor, Tensor]:
    """What `greedy` finds, and where the decoder's last layer looked for each word: B x L x N, float16."""
    past = model.decoder.begin(memory)
    words, steps = zip(*_search(model, past, memory), strict=True)
    return torch.stack(words, 1), model.decoder.attention(steps, past).half()


def _search(model: Captioner, past: list[Past], memory: Tensor) -> Iterator[tuple[Tensor, NextWord]]:
    """Each next word (B), and the step that predicted it."""
    word = torch.full((len(memory),), START, device=memory.device)
    ended = torch.zeros_like(word, dtype=torch.bool)
    for position in range(model.sizes.longest - 1):
        step = model.decoder.step(word, position, past)
        step.logits[:, NEVER] = -torch.inf
        word = torch.where(ended, NULL, step.logits.argmax(-1))
        yield word, step
        ended |= word == END
        if ended.all():
            break


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
