"""Captions from a trained model: greedy search with cached keys and values."""

from collections.abc import Sequence

import torch
from torch import Tensor

from models.captioner import Captioner
from pipeline.batches import feature_batches
from pipeline.datasets.schema import Pair
from pipeline.progress import track
from pipeline.store import FeatureStore
from pipeline.text import END, NULL, START, UNK, Vocabulary

NEVER = (NULL, UNK, START)  # tokens that are not words of a caption


@torch.inference_mode()
def greedy(model: Captioner, memory: Tensor) -> Tensor:
    """The likeliest next word each time: memory B x N x D -> token ids B x L, <START> left out.

    A caption ends with <END>, followed by <NULL>; one that never ends is cut at the model's longest.
    """
    past = model.decoder.begin(memory)
    word = torch.full((len(memory),), START, device=memory.device)
    ended = torch.zeros_like(word, dtype=torch.bool)
    words = []
    for position in range(model.sizes.longest - 1):
        logits = model.decoder.step(word, position, past)  # B x V
        logits[:, NEVER] = -torch.inf
        word = torch.where(ended, NULL, logits.argmax(-1))
        words.append(word)
        ended |= word == END
        if ended.all():
            break
    return torch.stack(words, 1)


@torch.inference_mode()
def captions(
    model: Captioner,
    pairs: Sequence[Pair],
    store: FeatureStore,
    vocabulary: Vocabulary,
    batch: int,
    shown: bool,
) -> dict[str, str]:
    """Greedy captions of the pairs by pair id, in order, computed in float32; `shown` with progress."""
    training, device = model.training, next(model.parameters()).device
    model.eval()
    found: dict[str, str] = {}
    rows = (
        row
        for before, after in feature_batches(pairs, store, batch)
        for row in greedy(model, _memory(model, before.to(device), after.to(device))).tolist()
    )
    if shown:
        rows = track(rows, "decoding", "pairs", len(pairs))
    for pair, row in zip(pairs, rows, strict=True):
        found[pair.pair_id] = vocabulary.decode(row)
    model.train(training)
    return found


def _memory(model: Captioner, before: Tensor, after: Tensor) -> Tensor:
    return model.encode(before.float(), after.float()).memory
