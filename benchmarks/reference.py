"""The plainest way, as the released programs do it: what the benchmarks measure ours against."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from models.common.captioner import NEVER, Captioner, Difference
from pipeline.text.vocabularies import END, NULL, START

# --- greedy decoding without cached keys and values ---


def of_memory(memory: Tensor) -> Difference:
    """Pairs of which the decoder sees a memory, B x N x D, and nothing else."""
    return Difference(memory, memory, memory)


def uncached(model: Captioner, memory: Tensor) -> list[list[int]]:
    """All words of all pairs are computed anew at every step, until each caption has ended.

    Memory B x N x D -> the tokens of each caption up to its <END>.
    """
    tokens = torch.full((len(memory), 1), START, device=memory.device)
    ended = torch.zeros(len(memory), dtype=torch.bool, device=memory.device)
    while tokens.shape[1] < model.sizes.longest and not ended.all():
        padded = torch.cat([tokens, torch.full_like(tokens[:, :1], NULL)], 1)
        logits = model.decoder(padded, of_memory(memory)).logits[:, -1]
        logits[:, NEVER] = -torch.inf
        word = logits.argmax(-1).masked_fill(ended, NULL)
        tokens = torch.cat([tokens, word[:, None]], 1)
        ended |= word == END
    return [[token for token in row if token != NULL] for row in tokens[:, 1:].tolist()]


def one_at_a_time(model: Captioner, memory: Tensor) -> list[list[int]]:
    """The same with one pair after another, as the released programs decode."""
    return [caption for pair in memory.split(1) for caption in uncached(model, pair)]


# --- reading features ---


def load_files(folder: Path, names: Sequence[str]) -> np.ndarray:
    """One float32 .npy an image, one after the other: images x C x H x W."""
    return np.stack([np.load(folder / f"{name}.npy") for name in names])


# --- matching ---


def matching(queries: Tensor, keys: Tensor) -> Tensor:
    """TM (SCORER Eq. 2) through all similarities at once: B x h x N x d, A x h x M x d -> B x A x h."""
    e = torch.einsum("bhnd,ahmd->bahnm", queries, keys)
    return (e.amax(-1).mean(-1) + e.amax(-2).mean(-1)) / 2
