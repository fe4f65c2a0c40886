"""Reference implementations for the benchmarks, which follow the released programs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from models.common.captioner import NEVER, Captioner, Difference
from pipeline.text.vocabularies import END, NULL, START

# --- greedy decoding without cached keys and values ---


def of_memory(memory: Tensor) -> Difference:
    """Wrap a decoder's memory, (B, N, D), as a Difference for decoding; its other tensors have no effect."""
    return Difference(memory, memory, memory)


def uncached(model: Captioner, memory: Tensor) -> list[list[int]]:
    """Decode pairs with the memory (B, N, D) greedily; return the tokens of each caption up to its <END>.

    All words of all pairs are recomputed at every step, until all captions have ended.
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
    """Decode pairs as `uncached` does, but one pair at a time, like the released programs."""
    return [caption for pair in memory.split(1) for caption in uncached(model, pair)]


# --- reading features ---


def load_files(folder: Path, names: Sequence[str]) -> np.ndarray:
    """Read the float32 .npy files of images, one after the other; return (images, C, H, W)."""
    return np.stack([np.load(folder / f"{name}.npy") for name in names])


# --- matching ---


def matching(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the token-wise matching TM (SCORER Eq. 2), (B, A, h), of B images with A images in h heads.

    Queries are (B, h, N, d), and keys (A, h, M, d). All similarities exist in memory at once.
    """
    e = torch.einsum("bhnd,ahmd->bahnm", queries, keys)
    return (e.amax(-1).mean(-1) + e.amax(-2).mean(-1)) / 2
