"""Attention with dropout on its weights, on a processor: a pair at a time, and only what is left is kept.

torch's fused kernel for processors has no dropout. With it all weights of a batch, their masks and their
products stand in memory at once, and one thread draws the masks. Here a core makes a pair's weights, drops
some and multiplies, while they are in its own cache; the backward pass makes them again, with the same masks,
from the seed (as Dao et al., FlashAttention, 2022, does on a GPU).
B pairs, h heads, d = D/h; L queries attend to M keys.
"""

import math
from collections import deque
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.kernels.cpu_threads import SUMMING, compiled, share, taken

TYPES = (torch.bfloat16, torch.float32)


def dropped_attention(q: Tensor, k: Tensor, v: Tensor, p: float) -> Tensor:
    """Dropout(softmax(q k^T / sqrt(d)), p) v: B x h x L x d, twice B x h x M x d -> B x h x L x d.

    Each weight is 0 with probability p, by itself, and divided by 1 - p otherwise. The masks' seed comes from
    torch's generator, so that a run that goes on after a kill draws the same ones; they do not depend on the
    number of threads. bfloat16 or float32; the softmax is in float32.
    """
    seed = int(torch.randint(2**62, ()))
    return _DroppedAttention.apply(q, k, v, p, seed)


class _DroppedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, p: float, seed: int) -> Tensor:
        ctx.save_for_backward(q, k, v)
        ctx.p, ctx.seed = p, seed
        return forward(q, k, v, p, seed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v = ctx.saved_tensors
        return *backward(grad, q, k, v, ctx.p, ctx.seed), None, None


def forward(q: Tensor, k: Tensor, v: Tensor, p: float, seed: int) -> Tensor:
    """B x h x L x d, laid out as B x L x h x d: the heads are joined next."""
    out = torch.empty_like(q.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)
    q, k, v = operands(q, k, v)

    def work(tasks: deque[tuple[int]]) -> None:
        room = Room(q, k)
        for (pair,) in taken(tasks):
            weights = room.weights(q[pair], k[pair])
            _drop(weights.numpy(), random_bits(seed, pair, weights), *threshold(p))
            out[pair] = weights.to(v.dtype) @ v[pair]

    share(((pair,) for pair in range(len(q))), work)
    return out


def operands(*given: Tensor) -> list[Tensor]:
    """What is multiplied: in bfloat16 only where the processor does so by itself, which is else very slow."""
    kind = given[0].dtype if given[0].dtype == torch.float32 or bfloat16_products() else torch.float32
    return [x.detach().to(kind) for x in given]  # detached: threads have a gradient mode of their own


def bfloat16_products() -> bool:
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, p: float, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v, given that of the result."""
    to_q, to_k, to_v = (torch.empty_like(x) for x in (q, k, v))
    grad, q, k, v = operands(grad, q, k, v)
    scale = 1 / math.sqrt(q.shape[-1])

    def work(tasks: deque[tuple[int]]) -> None:
        room = Room(q, k)
        dropped = torch.empty_like(room.softmax)
        for (pair,) in taken(tasks):
            weights, above = room.weights(q[pair], k[pair]), grad[pair]
            to_weights = (above @ v[pair].transpose(1, 2)).float()  # h x L x M
            arrays = (x.numpy() for x in (weights, to_weights, dropped))
            _drop_backward(*arrays, random_bits(seed, pair, weights), *threshold(p))
            to_v[pair] = dropped.to(v.dtype).transpose(1, 2) @ above
            to_scores = to_weights.to(q.dtype)
            to_q[pair] = (to_scores @ k[pair]).mul_(scale)
            to_k[pair] = (to_scores.transpose(1, 2) @ q[pair]).mul_(scale)

    share(((pair,) for pair in range(len(q))), work)
    return to_q, to_k, to_v


class Room:
    """What a thread needs for a pair's weights; memory written before is faster than new."""

    def __init__(self, q: Tensor, k: Tensor):
        (_, h, L, d), M = q.shape, k.shape[2]
        self.scale = 1 / math.sqrt(d)
        self.scores, self.softmax = q.new_empty(h, L, M), torch.empty(h, L, M)

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        """softmax(q k^T / sqrt(d)) of a pair, h x L x M, float32; the next call overwrites it."""
        torch.bmm(q * self.scale, k.transpose(1, 2), out=self.scores)
        return torch.softmax(self.scores, -1, torch.float32, out=self.softmax)


def random_bits(seed: int, pair: int, like: Tensor) -> np.ndarray:
    """Independent 32-bit numbers, one for each of a pair's weights (numpy's SFC64)."""
    numbers = np.random.Generator(np.random.SFC64([seed, pair]))
    whole = numbers.integers(2**64 - 1, size=(like.numel() + 1) // 2, dtype=np.uint64, endpoint=True)
    return whole.view(np.uint32)[: like.numel()].reshape(like.shape)


def threshold(p: float) -> tuple[np.uint32, np.float32]:
    """The number from which on a weight is kept, and what a kept one is multiplied by."""
    return np.uint32(min(round(p * 2**32), 2**32 - 1)), np.float32(1 / (1 - p) if p < 1 else 0)


@compiled
def _drop(weights, bits, first, scale):
    h, L, M = weights.shape
    for t in range(h):
        for i in range(L):
            w, b = weights[t, i], bits[t, i]
            for j in range(M):
                w[j] = w[j] * scale if b[j] >= first else np.float32(0)


@partial(compiled, fastmath=SUMMING)
def _drop_backward(weights, above, dropped, bits, first, scale):
    """`above`, the dropped weights' gradient, becomes that of the scores before the softmax."""
    h, L, M = weights.shape
    zero = np.float32(0)
    for t in range(h):
        for i in range(L):
            w, g, kept, b = weights[t, i], above[t, i], dropped[t, i], bits[t, i]
            for j in range(M):
                factor = scale if b[j] >= first else zero
                kept[j] = w[j] * factor
                g[j] = g[j] * factor
            total = zero
            for j in range(M):
                total += w[j] * g[j]
            for j in range(M):
                g[j] = w[j] * (g[j] - total)
