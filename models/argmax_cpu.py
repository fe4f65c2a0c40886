"""Where the maxima of a similarity tensor stand, and gradients along them alone: the matching's CPU path.

torch's `max` with indices and its `scatter_add` are several times slower here than a plain loop
compiled by Numba. Single-threaded: sums in one order, the same on every run.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

WHOLE_NUMBERS = {torch.bfloat16: torch.int16, torch.float32: torch.int32, torch.float64: torch.int64}


def compiled(function: Callable) -> Any:
    """Numba's compiler, cached on disk where there is a folder to write to and in memory where not."""
    options = {"nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # numba: "no locator available"
        return njit(**options)(function)


def maxima(e: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Row maxima, their columns, column maxima, their rows; the lowest index of a tie.

    e: A x h x N x M on the CPU, bfloat16, float32 or float64 -> A x h x N in e's type, int16;
    A x h x M, int16. A similarity that is NaN makes its maxima NaN.
    """
    whole = WHOLE_NUMBERS[e.dtype]
    bits = e.contiguous().view(whole)
    A, h, N, M = e.shape
    row, column = (bits.new_empty(A, h, size) for size in (N, M))
    row_at, column_at = (torch.empty(x.shape, dtype=torch.int16) for x in (row, column))
    flat = (x.flatten(0, 1).numpy() for x in (bits, row, column, row_at, column_at))
    _locate(*flat, torch.tensor(math.inf, dtype=e.dtype).view(whole).item())
    return row.view(e.dtype), row_at, column.view(e.dtype), column_at


@compiled
def _locate(bits, row, column, row_at, column_at, infinity):
    # Floating-point numbers as whole ones in the same order: such maxima, taken in loops that do one thing
    # and never leave early, run as vector instructions.
    number = bits.dtype.type
    slabs, N, M = bits.shape
    least, most = number(np.iinfo(bits.dtype).min), number(np.iinfo(bits.dtype).max)
    ordered = np.empty((N, M), bits.dtype)
    nearest = np.empty(M, bits.dtype)
    for s in range(slabs):
        for i in range(N):
            _order(bits[s, i], ordered[i], least, most, number(infinity))
        best = column[s]
        best[:] = least
        for i in range(N):
            for j in range(M):
                best[j] = max(best[j], ordered[i, j])
        nearest[:] = 0
        for i in range(N - 1, -1, -1):  # upwards, so that the lowest index is written last
            for j in range(M):
                nearest[j] = number(i) if ordered[i, j] == best[j] else nearest[j]
        column_at[s] = nearest
        for i in range(N):
            row[s, i], row_at[s, i] = _first_greatest(ordered[i], least, number(M))
        _undo(row[s], least, most)
        _undo(best, least, most)


@compiled
def _order(bits, ordered, least, most, infinity):
    """Negative numbers run backwards; both zeros are one; NaN is above all."""
    for j in range(len(bits)):
        b = bits[j]
        value = least - b if b < 0 else b
        ordered[j] = most if (b & most) > infinity else value


@compiled
def _undo(ordered, least, most):
    for j in range(len(ordered)):
        ordered[j] = least - ordered[j] if ordered[j] < 0 else ordered[j]


@compiled
def _first_greatest(x, least, nowhere):
    greatest, lowest = least, nowhere
    for j in range(len(x)):
        greatest = max(greatest, x[j])
    for j in range(len(x)):
        lowest = min(lowest, x.dtype.type(j) if x[j] == greatest else nowhere)
    return greatest, lowest


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
