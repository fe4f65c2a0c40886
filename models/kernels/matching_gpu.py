"""The token matching on a GPU (Triton): maxima of the similarities, and gradients through the maxima.

A tile of similarities is reduced in registers and never written. There are no atomic additions and no tuning
at run time, so results are the same on every run. float32 operands are multiplied as three products of TF32
parts, which is nearly exact; torch.set_float32_matmul_precision may allow plain TF32.
B, A: images; N, M: their tokens; h: heads; d = D: width of a head.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

TYPES = (torch.bfloat16, torch.float16, torch.float32)
IMAGES = 16  # other images per program of _nearest
UNROLLED = tl.constexpr(4)  # up to so many tiles per image are unrolled
ROOM = 128 * 1024  # bytes of shared memory from which tiles are read ahead


def locate(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return TM (SCORER Eq. 2) and the index of each token's best partner, the lowest one on a tie.

    (B, h, N, d), (A, h, M, d) in one of TYPES, any strides -> (B, A, h), float32; (B, A, h, N) and (B, A, h,
    M), int16. Similarities are float32. A number that is not finite makes all matchings of its image and head
    NaN, so that tiles need not be searched for it.
    """
    # each direction computes its own products, so that only rows of a tile are searched
    row, row_at = _best_of(queries, keys)
    column, column_at = (found.transpose(0, 1) for found in _best_of(keys, queries))
    matches = (row.mean(-1) + column.mean(-1)) / 2
    broken = _broken(queries)[:, None] | _broken(keys)  # (B, A, h)
    return matches.masked_fill(broken, torch.nan), row_at, column_at


def _broken(x: Tensor) -> Tensor:
    """Return True for images and heads with a number that is not finite: (B, h, N, d) -> (B, h)."""
    return ~x.isfinite().flatten(2).all(-1)


def _best_of(own: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Return each token's highest similarity in each other image, (B, A, h, N), and its index, int16."""
    (B, h, N, d), (A, _, M, _) = own.shape, others.shape
    best = own.new_empty(B, A, h, N, dtype=torch.float32)
    at = own.new_empty(best.shape, dtype=torch.int16)
    sizes, how = _nearest_tiles(own.dtype, M, d)
    images = min(A, IMAGES)
    programs = triton.cdiv(B * N, sizes["BLOCK_N"]), h * triton.cdiv(A, images)
    with torch.cuda.device_of(own):
        _nearest[programs](
            own, others, best, at, *own.stride(), *others.stride(), B, A, h, N, M, d, images,
            **sizes, PRECISION=_precision(), **how,
        )  # fmt: skip
    return best, at


def spread(
    grad: Tensor, queries: Tensor, keys: Tensor, row_at: Tensor, column_at: Tensor
) -> tuple[Tensor, Tensor]:
    """Map the gradient of TM, (B, A, h), to gradients of queries (B, h, N, d) and keys (A, h, M, d).

    Sums are float32.
    """
    turned = (x.transpose(0, 1) for x in (grad, column_at, row_at))  # (A, B, ...), for the keys
    return _gather(queries, keys, grad, row_at, column_at), _gather(keys, queries, *turned)


def _gather(own: Tensor, others: Tensor, grad: Tensor, own_at: Tensor, other_at: Tensor) -> Tensor:
    """Return the gradient of `own`, (B, h, N, d), from the gradient of TM and both images' indices."""
    (B, h, N, d), (A, _, M, _) = own.shape, others.shape
    sizes, how = _sum_tiles(own, N, M, d)
    programs = triton.cdiv(N, sizes["BLOCK_N"]) * triton.cdiv(d, sizes["BLOCK_D"]), B * h
    to = torch.empty(own.shape, dtype=own.dtype, device=own.device)
    along = grad.float().contiguous(), own_at.contiguous(), other_at.contiguous()
    with torch.cuda.device_of(own):
        _sum[programs](others, *along, to, *others.stride(), A, h, N, M, d, **sizes, **how)
    return to


def _nearest_tiles(dtype: torch.dtype, M: int, d: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return the tile sizes of _nearest, tuned on compute capability 9.0, and its compile options."""
    if d <= 64:  # a tile has all channels
        side, channels, how = 64, 64, _how(4, 2 if dtype.itemsize == 2 else 1)
    else:
        side, channels, how = 128, 128 // dtype.itemsize, _how(8, 3)
    return {"BLOCK_N": side, **_tiles(M, side), "BLOCK_D": _within(channels, d)}, how


def _sum_tiles(x: Tensor, N: int, M: int, d: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return the tile sizes of _sum, and its compile options."""
    half = x.dtype.itemsize == 2
    sizes = {"BLOCK_N": _within(64 if half else 128, N), **_tiles(M, 64)}
    sizes["BLOCK_D"] = _within(128 if half else 64, d)
    ahead = x.is_cuda and torch.cuda.get_device_properties(x.device).shared_memory_per_block_optin >= ROOM
    return sizes, _how(4, 2 if ahead else 1)


def _tiles(M: int, most: int) -> dict[str, int]:
    """Return the size in tokens of a full tile and of the last, partial tile; 0 if no tile is partial."""
    block = _within(most, M)
    return {"BLOCK_M": block, "TAIL": _within(block, M % block) if M % block else 0}


def _within(most: int, size: int) -> int:
    """Return the power of two from 16 to `most` that holds `size`."""
    return max(16, min(most, triton.next_power_of_2(size)))


def _how(warps: int, stages: int) -> dict[str, int]:
    return {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}


def _precision() -> str:
    return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"


@triton.jit
def _nearest(
    own, others, best, best_at,
    image, head, token, channel, other_image, other_head, other_token, other_channel,
    B, A, h, N: tl.constexpr, M: tl.constexpr, D: tl.constexpr, IMAGES: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, TAIL: tl.constexpr, BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    # a program has BLOCK_N tokens of all own images, so that few tiles are partial, and IMAGES other images
    tiles: tl.constexpr = M // BLOCK_M
    r = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    t, first = tl.program_id(1) % h, tl.program_id(1) // h * IMAGES
    mine, b, n = r < B * N, (r // N).to(tl.int64), r % N
    x_from = own + b * image + t * head + n * token
    x = _read(x_from, channel, mine, 0, D, BLOCK_D), x_from, channel, mine
    for i in range(IMAGES):
        a = tl.minimum(first + i, A - 1).to(tl.int64)  # after the last image, repeat it
        other = others + a * other_image + t * other_head
        if tiles > 0:
            m = tl.arange(0, BLOCK_M)
            high = _similarities(x, other + m * other_token, other_channel, m < M, D, BLOCK_D, PRECISION)
            tile_at = tl.zeros([BLOCK_N, BLOCK_M], tl.int32)
            if tiles <= UNROLLED:
                for tile in tl.static_range(1, tiles):
                    y_from = other + (tile * BLOCK_M + m) * other_token
                    e = _similarities(x, y_from, other_channel, m < M, D, BLOCK_D, PRECISION)
                    high, tile_at = tl.maximum(high, e), tl.where(e > high, tile, tile_at)
            else:
                for tile in range(1, tiles):
                    y_from = other + (tile * BLOCK_M + m) * other_token
                    e = _similarities(x, y_from, other_channel, m < M, D, BLOCK_D, PRECISION)
                    high, tile_at = tl.maximum(high, e), tl.where(e > high, tile, tile_at)
            value, at = _first_highest(high, tile_at * BLOCK_M + m[None, :], M)
        if TAIL > 0:
            m = tiles * BLOCK_M + tl.arange(0, TAIL)
            e = _similarities(x, other + m * other_token, other_channel, m < M, D, BLOCK_D, PRECISION)
            last, last_at = _first_highest(tl.where((m < M)[None, :], e, float("-inf")), m[None, :], M)
            if tiles > 0:
                value, at = tl.maximum(value, last), tl.where(last > value, last_at, at)
            else:
                value, at = last, last_at
        to = ((b * A + a) * h + t) * N + n
        tl.store(best + to, value, mask=mine)
        tl.store(best_at + to, at.to(tl.int16), mask=mine)


@triton.jit
def _similarities(
    x, y_from, y_channel, theirs, D: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr
):
    # own tokens x others' tokens
    whole, x_from, x_channel, mine = x
    e = tl.zeros([mine.shape[0], theirs.shape[0]], tl.float32)
    if D <= BLOCK_D:
        e = tl.dot(whole, _read(y_from, y_channel, theirs, 0, D, BLOCK_D).T, e, input_precision=PRECISION)
    else:
        for first in range(0, D, BLOCK_D):
            some = _read(x_from, x_channel, mine, first, D, BLOCK_D)
            e = tl.dot(
                some, _read(y_from, y_channel, theirs, first, D, BLOCK_D).T, e, input_precision=PRECISION
            )
    return e


@triton.jit
def _read(x_from, channel, there, first, D: tl.constexpr, BLOCK_D: tl.constexpr):
    # tokens x channels
    c = first + tl.arange(0, BLOCK_D)
    places, mask = x_from[:, None] + c[None, :] * channel, there[:, None]
    return tl.load(places, mask=mask if D % BLOCK_D == 0 else mask & (c < D)[None, :], other=0.0)


@triton.jit
def _first_highest(e, places, M: tl.constexpr):
    # maximum of each row, and its lowest index; any index for a row of NaN
    best = tl.max(e, 1)
    return best, tl.min(tl.where(e == best[:, None], places, M - 1), 1)


@triton.jit
def _sum(
    others, grad, own_at, other_at, to, image, head, token, channel,
    A: tl.constexpr, h, N: tl.constexpr, M: tl.constexpr, D: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, TAIL: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # A is constant because the interpreter of Triton 3.6 (torch 2.11) needs constant loop bounds.
    # the gradient is (1/2N [token chosen] + 1/2M [chosen by token]) times the other images' tokens; products
    # use only the ones and zeros, which are exact in every type, and the factors are applied afterwards
    parts: tl.constexpr = (D + BLOCK_D - 1) // BLOCK_D
    tiles: tl.constexpr = M // BLOCK_M
    slab = tl.program_id(1).to(tl.int64)
    b, t = slab // h, slab % h
    n = tl.program_id(0) // parts * BLOCK_N + tl.arange(0, BLOCK_N)
    c = tl.program_id(0) % parts * BLOCK_D + tl.arange(0, BLOCK_D)
    other = others + t * head + c[None, :] * channel  # of image a
    total = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    for a in range(A):
        at = (b * A + a) * h + t
        g = tl.load(grad + at) / 2
        taken = tl.load(own_at + at * N + n, mask=n < N, other=-1).to(tl.int32), n, other_at + at * M
        sums = tl.zeros_like(total), tl.zeros_like(total)
        if tiles <= UNROLLED:
            for tile in tl.static_range(tiles):
                sums = _add(sums, taken, other, token, tile * BLOCK_M, BLOCK_M, c < D, M, N == M)
        else:
            for tile in range(tiles):
                sums = _add(sums, taken, other, token, tile * BLOCK_M, BLOCK_M, c < D, M, N == M)
        if TAIL > 0:
            sums = _add(sums, taken, other, token, tiles * BLOCK_M, TAIL, c < D, M, N == M)
        total += g / N * sums[0] + g / M * sums[1]
        other += image
    into = to + (slab * N + n)[:, None] * D + c[None, :]
    tl.store(into, total.to(to.dtype.element_ty), mask=(n < N)[:, None] & (c < D)[None, :])


@triton.jit
def _add(sums, taken, other, token, first, WIDTH: tl.constexpr, there, M: tl.constexpr, SAME: tl.constexpr):
    # add one tile of the other image's tokens to both sums
    m = first + tl.arange(0, WIDTH)
    x = tl.load(other + m[:, None] * token, mask=(m < M)[:, None] & there[None, :], other=0.0)
    kind: tl.constexpr = tl.bfloat16 if x.dtype == tl.float32 else x.dtype
    m = first + 2 * tl.arange(0, WIDTH // 2)
    rows, columns = _ones(taken, m, M, kind)
    odd_rows, odd_columns = _ones(taken, m + 1, M, kind)
    by_rows, by_columns = sums
    if SAME:  # one weight for both
        by_rows = _times(_beside(rows + columns, odd_rows + odd_columns), x, by_rows)
    else:
        by_rows = _times(_beside(rows, odd_rows), x, by_rows)
        by_columns = _times(_beside(columns, odd_columns), x, by_columns)
    return by_rows, by_columns


@triton.jit
def _ones(taken, m, M: tl.constexpr, kind: tl.constexpr):
    took, n, by = taken
    taken_by = tl.load(by + m, mask=m < M, other=-1).to(tl.int32)
    rows, columns = took[:, None] == m[None, :], taken_by[None, :] == n[:, None]
    return tl.where(rows, 1.0, 0.0).to(kind), tl.where(columns, 1.0, 0.0).to(kind)


@triton.jit
def _beside(even, odd):
    # even and odd tokens are computed separately, so that a thread has the operands of its product in
    # registers, without shared memory
    ones = tl.join(even, odd)
    return ones.reshape(ones.shape[0], 2 * ones.shape[1])


@triton.jit
def _times(ones, x, total):
    last = x
    if x.dtype == tl.float32:  # the sum of three bfloat16 parts is exact, and faster than TF32
        high = x.to(tl.bfloat16)
        rest = x - high.to(tl.float32)
        middle = rest.to(tl.bfloat16)
        last = (rest - middle.to(tl.float32)).to(tl.bfloat16)
        total = tl.dot(ones, middle, tl.dot(ones, high, total))
    return tl.dot(ones, last, total)
