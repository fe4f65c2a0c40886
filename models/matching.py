"""Token-wise matching of every before image with every after image of a batch (SCORER Eq. 2-3).

B images against A images, h heads, d = D/h, N (M) tokens an image. This is the hot spot: the
similarities of a batch are B x A x h x N x M numbers, and only their row and column maxima matter.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from models import argmax_cpu
from models.switches import Mtm

LARGEST_SCALE = 100.0  # of a learned temperature: exp(s)


def token_matching(queries: Tensor, keys: Tensor) -> Tensor:
    """TM of each head for every pair of images: B x h x N x d, A x h x M x d -> B x A x h, float32.

    TM(Q, K) = 1/2 [ 1/N sum_i max_j q_i.k_j + 1/M sum_j max_i q_i.k_j ]    (SCORER Eq. 2)

    Exact, for one image of `queries` at a time: memory for A x h x N x M similarities, plus
    B x A x h x (N + M) indices of the maxima (int16) for the backward pass, which reaches the
    maxima only. A tie sends its gradient to one of the tied tokens.
    """
    return _TokenMatching.apply(queries, keys)


class _TokenMatching(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor) -> Tensor:
        find = argmax_cpu.maxima if queries.device.type == "cpu" else maxima
        matches, row_argmax, column_argmax = [], [], []
        keys = keys.contiguous()  # not in every product
        for q in queries:  # h x N x d
            row, row_at, column, column_at = find(q @ keys.transpose(-2, -1))  # of A x h x N x M
            matches.append((row.float().mean(-1) + column.float().mean(-1)) / 2)  # A x h
            row_argmax.append(row_at)
            column_argmax.append(column_at)
        ctx.save_for_backward(queries, keys, torch.stack(row_argmax), torch.stack(column_argmax))
        return torch.stack(matches)  # B x A x h

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        queries, keys, row_argmax, column_argmax = ctx.saved_tensors
        exact = torch.promote_types(queries.dtype, torch.float32)
        along = argmax_cpu.spread if queries.device.type == "cpu" else spread
        grad_q, grad_k = along(grad, queries.to(exact), keys.to(exact), row_argmax, column_argmax)
        return grad_q.to(queries.dtype), grad_k.to(keys.dtype)


def maxima(e: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Row maxima of A x h x N x M, their columns (int16), column maxima, their rows."""
    (row, row_at), (column, column_at) = e.max(-1), e.max(-2)
    return row, row_at.short(), column, column_at.short()


def spread(
    grad: Tensor, queries: Tensor, keys: Tensor, row_argmax: Tensor, column_argmax: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of queries and keys along the maxima alone, for one image of `queries` at a time."""
    grad_q, grad_k = torch.zeros_like(queries), torch.zeros_like(keys)
    for b, q in enumerate(queries):
        q = q.expand(keys.shape[0], *q.shape)  # A x h x N x d
        to_rows = grad[b, :, :, None, None] / (2 * q.shape[2])  # A x h x 1 x 1
        to_columns = grad[b, :, :, None, None] / (2 * keys.shape[2])
        row = row_argmax[b].long()[..., None].expand(*q.shape)  # which key each query took
        column = column_argmax[b].long()[..., None].expand(*keys.shape)  # which query each key took
        grad_k.scatter_add_(2, row, to_rows * q)
        grad_k += to_columns * q.gather(2, column)
        grad_q[b] = (to_rows * keys.gather(2, row)).sum(0)
        grad_q[b] += torch.zeros_like(q).scatter_add_(2, column, to_columns * keys).sum(0)
    return grad_q, grad_k


def matching(queries: Tensor, keys: Tensor, mtm: Mtm = "per_head") -> Tensor:
    """MTM as one number a pair of images (SCORER Eq. 3): B x h x N x d, A x h x M x d -> B x A, float32.

    `per_head`: TM in each head, then the mean over heads. `summed`: e_ij is summed over the heads,
    and only then max'ed. No 1/sqrt(d) in either: Eq. 2 has none.
    """
    if mtm == "summed":  # one dot product over all heads is one head, D wide
        queries, keys = (x.transpose(1, 2).flatten(2)[:, None] for x in (queries, keys))  # B x 1 x N x D
    return token_matching(queries, keys).mean(-1)


def contrast(similarity: Tensor, temperature: float | Tensor) -> Tensor:
    """-(1/B) sum_k log softmax_r(S_kr / tau)_k: row k's own partner is column k (SCORER Eq. 4)."""
    partner = torch.arange(len(similarity), device=similarity.device)
    return nn.functional.cross_entropy(similarity / temperature, partner)


class Contrast(nn.Module):
    """1/2 (L of the one direction + L of the other), each B x B (SCORER Eq. 4 and 11).

    With a learned temperature the similarities are multiplied by exp(s), s = 1 at first.
    """

    def __init__(self, temperature: float, learned: bool = False):
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature must be positive, not {temperature}")
        self.fixed = temperature
        self.s = nn.Parameter(torch.tensor(1.0)) if learned else None

    @property
    def temperature(self) -> float | Tensor:
        """tau, which similarities are divided by."""
        return self.fixed if self.s is None else torch.exp(-self.s)

    def constrain(self) -> None:
        """exp(s) <= 100."""
        if self.s is not None:
            with torch.no_grad():
                self.s.clamp_(max=math.log(LARGEST_SCALE))

    def forward(self, one_way: Tensor, other_way: Tensor) -> Tensor:
        return (contrast(one_way, self.temperature) + contrast(other_way, self.temperature)) / 2
