"""Token-wise matching on a CPU.

Token-wise matching (TM) finds, for each token, the most similar token of a second image. This
module computes the maxima of the similarities, and the gradients through the maxima. A core
computes a tile of similarities that fits its cache, and finds the maxima of the tile. This is
several times faster than torch's `max` with indices, `scatter_add` and parallel products of small
matrices.
B: images of the queries; A: images of the keys; N: tokens of a query image; M: tokens of a key
image; h: heads; d: width of a head.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any, TypeVar

import numpy as np
import torch
from numba import njit
from torch import Tensor

Task = TypeVar("Task")
WHOLE_NUMBERS = {torch.bfloat16: torch.int16, torch.float32: torch.int32}
TILE = 4 * 196  # tokens on each side of a tile
CHANNELS = 64  # channels whose gradients are summed together


def compiled(function: Callable[..., Any]) -> Any:
    return njit(cache=True, nogil=True, fastmath={"contract", "nsz"}, error_model="numpy")(function)


def share(tasks: Iterable[Task], work: Callable[[deque[Task]], None]) -> None:
    """Run `work` in as many threads as torch uses; each thread takes tasks from a shared queue (`taken`).

    In these threads, an operation of torch uses no further threads. So results do not depend on the
    distribution of tasks, and threads do not wait for each other after each small product.
    """
    queue, threads = deque(tasks), torch.get_num_threads()
    if threads == 1:
        work(queue)
        return
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for done in [pool.submit(work, queue) for _ in range(min(threads, len(queue)))]:
                done.result()
    finally:
        torch.set_num_threads(threads)


def taken(tasks: deque[Task]) -> Iterable[Task]:
    """Yield tasks from the shared queue until it is empty."""
    while True:
        try:
            yield tasks.popleft()
        except IndexError:
            return


def locate(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Match queries, (B, h, N, d), with keys, (A, h, M, d), bfloat16 or float32 both; return three tensors.

    1. The token-wise matching TM of each two images in each head (SCORER Eq. 2), (B, A, h), float32; NaN if a
       similarity is NaN.
    2. Index of the most similar key token for each query token, (B, A, h, N), int16; on a tie the lowest.
    3. Index of the most similar query token for each key token, (B, A, h, M), int16; on a tie the lowest.
    """
    (B, h, N, d), (A, _, M, _) = queries.shape, keys.shape
    q, k = (x.detach().transpose(0, 1).reshape(h, -1, d) for x in (queries, keys))  # (h, BN, d), (h, AM, d)
    row_at, column_at = (torch.empty(B, A, h, n, dtype=torch.int16) for n in (N, M))
    results = torch.empty(B, A, h), row_at, column_at
    rows, columns = max(1, TILE // N), max(1, TILE // M)  # images

    def work(tasks: deque[tuple[int, int, int]]) -> None:
        memory = q.new_empty(rows * N * columns * M)
        for t, b, a in taken(tasks):
            tile_q, tile_k = q[t, b * N : (b + rows) * N], k[t, a * M : (a + columns) * M]
            e = memory[: len(tile_q) * len(tile_k)].view(len(tile_q), len(tile_k))
            torch.mm(tile_q, tile_k.T, out=e)
            maxima(e, *results, (b, a, t))

    share(product(range(h), range(0, B, rows), range(0, A, columns)), work)
    return results


def maxima(
    e: Tensor, matches: Tensor, row_at: Tensor, column_at: Tensor, start: tuple[int, int, int]
) -> None:
    """Write the results of `locate` for one tile of similarities at (query image, key image, head)."""
    integer = WHOLE_NUMBERS[e.dtype]
    infinity = torch.tensor(math.inf, dtype=e.dtype).view(integer).item()
    _locate(e.view(integer).numpy(), matches.numpy(), row_at.numpy(), column_at.numpy(), *start, infinity)


@compiled
def _locate(bits, matches, row_at, column_at, first_b, first_a, t, infinity):
    # floating-point numbers are mapped to integers in the same order, and loops do not exit early, so that
    # maxima compile to vector instructions
    N, M = row_at.shape[3], column_at.shape[3]
    ordered = np.empty((N, M), bits.dtype)
    row, row_index = np.empty(N, bits.dtype), np.empty(N, bits.dtype)
    column, column_index = np.empty(M, bits.dtype), np.empty(M, bits.dtype)
    for b in range(bits.shape[0] // N):
        for a in range(bits.shape[1] // M):
            _order(bits, b * N, a * M, ordered, infinity)
            _rows(ordered, row, row_index)
            _columns(ordered, column, column_index)
            position = first_b + b, first_a + a, t
            row_at[position] = row_index
            column_at[position] = column_index
            matches[position] = (_mean(row) + _mean(column)) / 2


@compiled
def _order(bits, top, left, ordered, infinity):
    """Write the similarities of two images to `ordered`, (N, M), as integers in the same order.

    `bits` has the bits of the floats, from (top, left) on; `infinity` has those of infinity. NaN becomes the
    largest integer, and -0 equals 0.
    """
    number = bits.dtype.type
    lowest, highest = number(np.iinfo(bits.dtype).min), number(np.iinfo(bits.dtype).max)
    N, M = ordered.shape
    for i in range(N):
        x, target = bits[top + i][left : left + M], ordered[i]
        for j in range(M):
            value = lowest - x[j] if x[j] < 0 else x[j]
            target[j] = highest if (x[j] & highest) > number(infinity) else value


@compiled
def _rows(ordered, best, index):
    N, M = ordered.shape
    number = ordered.dtype.type
    nowhere = number(M)
    for i in range(N):
        greatest, lowest = ordered[i, 0], nowhere
        for j in range(M):
            greatest = max(greatest, ordered[i, j])
        for j in range(M):
            lowest = min(lowest, number(j) if ordered[i, j] == greatest else nowhere)
        best[i], index[i] = greatest, lowest


@compiled
def _columns(ordered, best, index):
    N, M = ordered.shape
    number = ordered.dtype.type
    nowhere = number(N)
    best[:] = ordered[0]
    for i in range(N):
        for j in range(M):
            best[j] = max(best[j], ordered[i, j])
    index[:] = nowhere
    for i in range(N):
        for j in range(M):
            index[j] = min(index[j], number(i) if ordered[i, j] == best[j] else nowhere)


@compiled
def _mean(ordered):
    lowest = ordered.dtype.type(np.iinfo(ordered.dtype).min)
    bits = np.empty(len(ordered), np.int32)
    for j in range(len(ordered)):
        bits[j] = lowest - ordered[j] if ordered[j] < 0 else ordered[j]
    if ordered.itemsize == 2:  # bfloat16: the upper half of a float32
        bits <<= 16
    return bits.view(np.float32).astype(np.float64).sum() / len(ordered)


def spread(
    grad: Tensor, queries: Tensor, keys: Tensor, row_at: Tensor, column_at: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of queries, (B, h, N, d), and keys, (A, h, M, d), in float32 or wider.

    `grad`, (B, A, h), is of the scores of `locate`, which also returned `row_at`, (B, A, h, N), and
    `column_at`, (B, A, h, M). A gradient is a sum over the images on the other side, always in the same
    order.
    """
    exact = torch.promote_types(queries.dtype, torch.float32)
    channels = math.gcd(queries.shape[-1], CHANNELS)
    # (h d / channels, B or A, N or M, channels)
    q, k = (_by_channels(x.to(exact), channels) for x in (queries, keys))
    grad_q, grad_k = torch.zeros_like(q), torch.zeros_like(k)
    by_query = grad.to(exact), row_at, column_at  # (B, A, ...)
    by_key = [x.transpose(0, 1) for x in (grad.to(exact), column_at, row_at)]  # (A, B, ...), for the keys
    sides = (k, grad_q, *by_query), (q, grad_k, *by_key)
    arrays = [[x.contiguous().numpy() for x in side] for side in sides]
    a_head = queries.shape[-1] // channels  # groups of channels per head, which share indices

    def work(tasks: deque[tuple[int, int]]) -> None:
        for side, group in taken(tasks):
            others, grads, *matched = arrays[side]
            _gather(others[group], grads[group], *matched, group // a_head)

    share(product(range(2), range(len(q))), work)
    return _together(grad_q, queries), _together(grad_k, keys)


def _by_channels(x: Tensor, channels: int) -> Tensor:
    """Group channels, contiguously: (B, h, N, d) -> (h d / channels, B, N, channels)."""
    return x.unflatten(-1, (-1, channels)).permute(1, 3, 0, 2, 4).flatten(0, 1).contiguous()


def _together(x: Tensor, like: Tensor) -> Tensor:
    return x.unflatten(0, (like.shape[1], -1)).permute(2, 0, 3, 1, 4).flatten(-2).to(like.dtype)


@compiled
def _gather(others, sums, grad, own_at, other_at, t):
    # own_at: for each own token, its best token of the other image; other_at: the reverse
    channels = sums.shape[2]
    for b in range(len(sums)):
        for a in range(len(others)):
            g, other_tokens, own_sums = grad[b, a, t] / 2, others[a], sums[b]
            took, taken_by = own_at[b, a, t], other_at[b, a, t]
            for i in range(len(took)):
                j = took[i]
                for c in range(channels):
                    own_sums[i, c] += g / len(took) * other_tokens[j, c]
            for j in range(len(taken_by)):
                i = taken_by[j]
                for c in range(channels):
                    own_sums[i, c] += g / len(taken_by) * other_tokens[j, c]
