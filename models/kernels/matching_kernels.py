"""Triton kernels of matching_gpu.py.

The kernels compute the maxima of the similarities, the places of the maxima, and the gradients.
Another kernel lists the pairs of images whose gradient is not negligible.

B, A: numbers of images; N, M: numbers of their tokens; h: heads; D: width of a head. Similarities
are computed in tiles of BLOCK_N tokens times BLOCK_M tokens of another image. TAIL: size of the
smaller tile for the tokens that remain at an image's end; BLOCK_D: number of channels that are
processed at once.
"""

import triton
import triton.language as tl

UNROLLED = tl.constexpr(4)  # the loop over an image's tiles is unrolled if there are at most this many


@triton.jit
def list_active(size, rows, columns, count, which, row, column, A, negligible, BLOCK: tl.constexpr):
    # a program has one own image b; a pair is left out if it is negligible for b and for the other image
    b, a = tl.program_id(0), tl.arange(0, BLOCK)
    own = tl.load(size + b * row + a * column, mask=a < A, other=0.0)
    least = negligible * tl.minimum(tl.load(rows + b), tl.load(columns + a, mask=a < A, other=0.0))
    counts = (a < A) & ~(own <= least)
    rank = tl.cumsum(counts.to(tl.int32), 0)
    tl.store(count + b, tl.max(rank, 0))
    tl.store(which + b * A + rank - 1, a, mask=counts)


@triton.jit
def nearest(
    own, others, best,
    image, head, token, channel, other_image, other_head, other_token, other_channel,
    B, A, h, N: tl.constexpr, M: tl.constexpr, D: tl.constexpr, IMAGES: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, TAIL: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # a program has BLOCK_N tokens of all own images, so that few tiles are partial, and IMAGES other images
    r = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    t, first = tl.program_id(1) % h, tl.program_id(1) // h * IMAGES
    mine, b, n = r < B * N, (r // N).to(tl.int64), r % N
    x_from = own + b * image + t * head + n * token
    x = _read(x_from, channel, mine, 0, D, BLOCK_D), x_from, channel, mine
    broken = _broken(x, D, BLOCK_D)
    for i in range(IMAGES):
        a = tl.minimum(first + i, A - 1).to(tl.int64)  # after the last image, repeat it
        y = others + a * other_image + t * other_head, other_token, other_channel
        value, _ = _highest(x, y, M, D, BLOCK_M, TAIL, BLOCK_D, False)
        value = tl.where(broken, float("nan"), value)
        tl.store(best + ((b * A + a) * h + t) * N + n, value, mask=mine)


@triton.jit
def _broken(x, D: tl.constexpr, BLOCK_D: tl.constexpr):
    # which of the own tokens have a number that is not finite; the maxima may leave such numbers out
    whole, x_from, channel, mine = x
    rest = tl.max(tl.where(whole.to(tl.float32) * 0 == 0, 0, 1), 1)
    for first in range(BLOCK_D, D, BLOCK_D):
        some = _read(x_from, channel, mine, first, D, BLOCK_D)
        rest = tl.maximum(rest, tl.max(tl.where(some.to(tl.float32) * 0 == 0, 0, 1), 1))
    return rest > 0


@triton.jit
def places(
    own, others, count, which, at,
    image, head, token, channel, other_image, other_head, other_token, other_channel,
    A, h, N: tl.constexpr, M: tl.constexpr, D: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, TAIL: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # a program has BLOCK_N tokens of one own image and head, and all its listed images
    b, t = (tl.program_id(1) // h).to(tl.int64), tl.program_id(1) % h
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    x_from = own + b * image + t * head + n * token
    x = _read(x_from, channel, n < N, 0, D, BLOCK_D), x_from, channel, n < N
    for i in range(tl.load(count + b)):
        a = tl.load(which + b * A + i).to(tl.int64)
        y = others + a * other_image + t * other_head, other_token, other_channel
        _, place = _highest(x, y, M, D, BLOCK_M, TAIL, BLOCK_D, True)
        tl.store(at + ((b * A + a) * h + t) * (N + N % 2) + n, place.to(tl.float16), mask=n < N)


@triton.jit
def _highest(
    x, y, M: tl.constexpr, D: tl.constexpr,
    BLOCK_M: tl.constexpr, TAIL: tl.constexpr, BLOCK_D: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    # maximum of each own token over the other image's tokens, and with PLACES its lowest index
    tiles: tl.constexpr = M // BLOCK_M
    m = tl.arange(0, BLOCK_M)
    value = tl.full([x[3].shape[0]], float("-inf"), tl.float32)
    at = tl.zeros([x[3].shape[0]], tl.int32)
    if tiles > 0:
        high = _similarities(x, y, m, M, D, BLOCK_D)
        tile_at = tl.zeros(high.shape, tl.int32)
        if tiles <= UNROLLED:
            for tile in tl.static_range(1, tiles):
                e = _similarities(x, y, tile * BLOCK_M + m, M, D, BLOCK_D)
                if PLACES:
                    tile_at = tl.where(e > high, tile, tile_at)
                high = tl.maximum(high, e)
        else:
            for tile in range(1, tiles):
                e = _similarities(x, y, tile * BLOCK_M + m, M, D, BLOCK_D)
                if PLACES:
                    tile_at = tl.where(e > high, tile, tile_at)
                high = tl.maximum(high, e)
        value = tl.max(high, 1)
        if PLACES:
            at = _first(high, value, tile_at * BLOCK_M + m[None, :], M)
    if TAIL > 0:
        k = tiles * BLOCK_M + tl.arange(0, TAIL)
        e = tl.where((k < M)[None, :], _similarities(x, y, k, M, D, BLOCK_D), float("-inf"))
        last = tl.max(e, 1)
        if PLACES:
            at = tl.where((last > value) | (tiles == 0), _first(e, last, k[None, :], M), at)
        value = tl.maximum(value, last)
    return value, at


@triton.jit
def _first(e, best, places, M: tl.constexpr):
    # lowest index of each row's maximum; any index for a row of NaN
    return tl.min(tl.where(e == best[:, None], places, M - 1), 1)


@triton.jit
def _similarities(x, y, m, M: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr):
    # own tokens x the other image's tokens m
    whole, x_from, x_channel, mine = x
    other, token, channel = y
    y_from, theirs = other + m * token, m < M
    e = tl.zeros([mine.shape[0], m.shape[0]], tl.float32)
    if D <= BLOCK_D:
        e = tl.dot(whole, _read(y_from, channel, theirs, 0, D, BLOCK_D).T, e)
    else:
        for first in range(0, D, BLOCK_D):
            some = _read(x_from, x_channel, mine, first, D, BLOCK_D)
            e = tl.dot(some, _read(y_from, channel, theirs, first, D, BLOCK_D).T, e)
    return e


@triton.jit
def _read(x_from, channel, there, first, D: tl.constexpr, BLOCK_D: tl.constexpr):
    # tokens x channels
    c = first + tl.arange(0, BLOCK_D)
    places, mask = x_from[:, None] + c[None, :] * channel, there[:, None]
    return tl.load(places, mask=mask if D % BLOCK_D == 0 else mask & (c < D)[None, :], other=0.0)


@triton.jit
def sum_gradients(
    others, grad, grad_own, grad_other, grad_head, own_at, other_at, count, which, to,
    part, image, head, token, channel,
    PARTS: tl.constexpr, B, A, h, N: tl.constexpr, M: tl.constexpr, D: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, TAIL: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # the gradient is (1/2N [token chosen] + 1/2M [chosen by token]) times the other images' tokens; products
    # use only small whole multiples of ONE, and the factors are applied afterwards
    splits: tl.constexpr = (D + BLOCK_D - 1) // BLOCK_D
    tiles: tl.constexpr = M // BLOCK_M
    slab = tl.program_id(1).to(tl.int64)
    b, t = slab // h, slab % h
    n = tl.program_id(0) // splits * BLOCK_N + tl.arange(0, BLOCK_N)
    c = tl.program_id(0) % splits * BLOCK_D + tl.arange(0, BLOCK_D)
    total = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    own = _word(n, n)
    for i in range(tl.load(count + b)):
        a = tl.load(which + b * A + i).to(tl.int64)
        took = tl.load(own_at + ((b * A + a) * h + t) * (N + N % 2) + n, mask=n < N, other=-1.0)
        chosen = _word(took, took), own, other_at + ((a * B + b) * h + t) * ((M + 1) // 2)
        x = others + a * image + t * head + c[None, :] * channel, part, token, c < D
        sums = tl.zeros_like(total), tl.zeros_like(total)
        if tiles <= UNROLLED:
            for tile in tl.static_range(tiles):
                sums = _add(sums, chosen, x, tile * BLOCK_M, BLOCK_M, M, N == M, PARTS)
        else:
            for tile in range(tiles):
                sums = _add(sums, chosen, x, tile * BLOCK_M, BLOCK_M, M, N == M, PARTS)
        if TAIL > 0:
            sums = _add(sums, chosen, x, tiles * BLOCK_M, TAIL, M, N == M, PARTS)
        total += tl.load(grad + b * grad_own + a * grad_other + t * grad_head) * (sums[0] / N + sums[1] / M)
    # set.eq writes the bits of float16's 1, which are 2^-7 in bfloat16
    scale: tl.constexpr = 0.5 if others.dtype.element_ty == tl.float16 else 64.0
    into = to + (slab * N + n)[:, None] * D + c[None, :]
    tl.store(into, (total * scale).to(to.dtype.element_ty), mask=(n < N)[:, None] & (c < D)[None, :])


@triton.jit
def _add(
    sums, chosen, x, first, WIDTH: tl.constexpr, M: tl.constexpr, SAME: tl.constexpr, PARTS: tl.constexpr
):
    # add one tile of the other image's tokens to both sums; a word has two adjacent tokens of the tile
    took, own, by = chosen
    half = tl.arange(0, WIDTH // 2)
    even = first + 2 * half
    # -1 is no token; a padded last token meets a row of zeros
    taken_by = tl.load(by + first // 2 + half, mask=even < M, other=-1140802560)
    rows = _equal(took[:, None], _word(even, even + 1)[None, :])
    columns = _equal(taken_by[None, :], own[:, None])
    by_rows, by_columns = sums
    kind: tl.constexpr = x[0].dtype.element_ty
    if SAME:  # one weight for both
        by_rows = _times(_plus(rows, columns, kind), x, by_rows, first, WIDTH, M, PARTS)
    else:
        by_rows = _times(rows, x, by_rows, first, WIDTH, M, PARTS)
        by_columns = _times(columns, x, by_columns, first, WIDTH, M, PARTS)
    return by_rows, by_columns


@triton.jit
def _times(words, x, total, first, WIDTH: tl.constexpr, M: tl.constexpr, PARTS: tl.constexpr):
    # even and odd tokens come apart and are joined, so that a thread has the operands of its product in
    # registers, without shared memory
    other, part, token, there = x
    kind: tl.constexpr = other.dtype.element_ty
    low = (words & 0xFFFF).to(tl.int16).to(kind, bitcast=True)
    high = (words >> 16).to(tl.int16).to(kind, bitcast=True)
    ones = tl.join(low, high).reshape(words.shape[0], WIDTH)
    m = first + tl.arange(0, WIDTH)
    for i in tl.static_range(PARTS):
        y = tl.load(other + i * part + m[:, None] * token, mask=(m < M)[:, None] & there[None, :], other=0.0)
        total = tl.dot(ones, y, total)
    return total


@triton.jit
def _word(low, high):
    # two whole numbers up to MOST_TOKENS as float16, in one int32
    low = low.to(tl.float16).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
    high = high.to(tl.float16).to(tl.int16, bitcast=True).to(tl.int32)
    return low | (high << 16)


@triton.jit
def _equal(a, b):
    # compare two words of float16: 1.0 where they are equal; one instruction for two comparisons
    return tl.inline_asm_elementwise(
        "set.eq.f16x2.f16x2 $0, $1, $2;", "=r,r,r", [a, b], dtype=tl.int32, is_pure=True, pack=1
    )


@triton.jit
def _plus(a, b, kind: tl.constexpr):
    # a + b of two words of numbers of that kind; as a * 1 + b, since compute capability 8.0 has no add.bf16x2
    if kind == tl.float16:
        return tl.inline_asm_elementwise(
            "add.rn.f16x2 $0, $1, $2;", "=r,r,r", [a, b], dtype=tl.int32, is_pure=True, pack=1
        )
    return tl.inline_asm_elementwise(
        "{ .reg .b32 one; mov.b32 one, 0x3F803F80; fma.rn.bf16x2 $0, $1, one, $2; }",
        "=r,r,r", [a, b], dtype=tl.int32, is_pure=True, pack=1,
    )  # fmt: skip
