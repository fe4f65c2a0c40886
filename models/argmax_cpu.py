"""Where the maxima of a similarity tensor stand, and gradients along them alone: the matching's CPU path.

torch's `max` with indices and its `scatter_add` are several times slower here than a plain loop
compiled by Numba. Single-threaded: sums in one order, the same on every run.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor


def compiled(function: Callable) -> Any:
    """Numba's compiler, cached on disk where there is a folder to write to and in memory where not."""
    options = {"nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # numba: "no locator available"
        return njit(**options)(function)


def maxima(e: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Row maxima, their columns, column maxima, their rows; the lowest index of a tie.

    e: A x h x N x M on the CPU -> A x h x N, int16; A x h x M, int16. A similarity that is NaN
    makes its maxima NaN, at index 0.
    """
    e = (e if e.dtype in (torch.float32, torch.float64) else e.float()).contiguous()
    row, column = e.amax(-1), e.amax(-2)
    row_at, column_at = (torch.zeros_like(x, dtype=torch.int16) for x in (row, column))
    N, M = e.shape[-2:]
    _locate(
        e.view(-1, N, M).numpy(),
        row.view(-1, N).numpy(),
        column.view(-1, M).numpy(),
        row_at.view(-1, N).numpy(),
        column_at.view(-1, M).numpy(),
    )
    return row, row_at, column, column_at


@compiled
def _locate(e, row, column, row_at, column_at):
    # no loop leaves early: such ones run as vector instructions, and are three times faster
    pairs, N, M = e.shape
    nowhere = np.int32(M)
    for p in range(pairs):
        for i in range(N):
            x, best, lowest = e[p, i], row[p, i], nowhere
            for j in range(M):
                lowest = min(lowest, np.int32(j) if x[j] == best else nowhere)
            row_at[p, i] = lowest if lowest < nowhere else 0
        best, at = column[p], column_at[p]
        for i in range(N - 1, -1, -1):  # upwards, so that the lowest index is written last
            x = e[p, i]
            for j in range(M):
                at[j] = i if x[j] == best[j] else at[j]


def spread(
    grad: Tensor, queries: Tensor, keys: Tensor, row_at: Tensor, column_at: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the queries B x h x N x d and keys A x h x M x d, given B x A x h of the matching."""
    given = (x.contiguous() for x in (grad.to(queries.dtype), queries, keys, row_at, column_at))
    # contiguous whatever the strides of the operands: a copy would be filled in vain
    grad_q, grad_k = (torch.zeros(x.shape, dtype=x.dtype) for x in (queries, keys))
    _spread(*(x.numpy() for x in (*given, grad_q, grad_k)))
    return grad_q, grad_k


@compiled
def _spread(grad, queries, keys, row_at, column_at, grad_q, grad_k):
    B, h, N, _ = queries.shape
    A, _, M, _ = keys.shape
    for b in range(B):
        for a in range(A):
            for t in range(h):
                q, k, to_q, to_k = queries[b, t], keys[a, t], grad_q[b, t], grad_k[a, t]
                g = grad[b, a, t] / 2
                for i in range(N):
                    _add(g / N, q, k, to_q, to_k, i, row_at[b, a, t, i])
                for j in range(M):
                    _add(g / M, q, k, to_q, to_k, column_at[b, a, t, j], j)


@compiled
def _add(g, q, k, to_q, to_k, i, j):
    """The gradient of g * q_i.k_j."""
    for c in range(q.shape[1]):
        to_q[i, c] += g * k[j, c]
        to_k[j, c] += g * q[i, c]
