"""Where the maxima of the similarities stand, and gradients along them alone: the matching on a GPU.

Triton kernels: a tile of similarities lives in registers, is reduced there and is never written. B x A
images, h heads, d = D/h, N (M) tokens an image. Nothing is added atomically and no tile size is tried
out at run time: the same on every run. float32 operands are multiplied as such, unless
torch.set_float32_matmul_precision allows TF32. Operands that are not finite spread further in gradients
than the maxima tell, as through any product of matrices.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

TYPES = (torch.bfloat16, torch.float16, torch.float32)
LEAST = tl.constexpr(-(2**31))
MOST = tl.constexpr(2**31 - 1)


def locate(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """TM (SCORER Eq. 2), and where each token's best partner stands; the lowest index of a tie.

    B x h x N x d, A x h x M x d in one of TYPES, any strides -> B x A x h, float32; B x A x h x N and
    B x A x h x M, int16. Similarities are summed and compared in float32. One that is NaN makes its
    matching NaN.
    """
    (B, h, N, d), (A, _, M, _) = queries.shape, keys.shape
    sizes = N, M, d, *_blocks(queries, (N, 64), (M, 128))
    spans = triton.cdiv(M, sizes[4])  # of keys: a program sees all queries and one span
    row = queries.new_empty(spans, B, A, h, N, dtype=torch.float32)
    row_at = queries.new_empty(row.shape, dtype=torch.int16)
    column_sum = queries.new_empty(spans, B, A, h, dtype=torch.float32)
    column_at = queries.new_empty(B, A, h, M, dtype=torch.int16)
    found = row, row_at, column_sum, column_at
    with torch.cuda.device_of(queries):
        _locate[(spans * B * A * h,)](
            queries, keys, *found, *queries.stride(), *keys.stride(), B, A, h, *sizes, **_how()
        )  # fmt: skip
    best, best_at = _first_of_spans(row, row_at)
    return (best.mean(-1) + column_sum.sum(0) / M) / 2, best_at, column_at


def _first_of_spans(row: Tensor, row_at: Tensor) -> tuple[Tensor, Tensor]:
    best, best_at = row[0], row_at[0]
    for value, at in zip(row[1:], row_at[1:], strict=True):
        higher = (value > best) | (value.isnan() & ~best.isnan())  # never of equals: the first one stays
        best, best_at = torch.where(higher, value, best), torch.where(higher, at, best_at)
    return best, best_at


def spread(
    grad: Tensor, queries: Tensor, keys: Tensor, row_at: Tensor, column_at: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the queries B x h x N x d and keys A x h x M x d, given B x A x h of the matching.

    Summed in float32 whatever the operands' type.
    """
    turned = (x.transpose(0, 1) for x in (grad, column_at, row_at))  # A x B x ...: from the keys
    return _gather(queries, keys, grad, row_at, column_at), _gather(keys, queries, *turned)


def _gather(own: Tensor, others: Tensor, grad: Tensor, own_at: Tensor, other_at: Tensor) -> Tensor:
    """The gradient of `own`: B x h x N x d, from B x A x h, B x A x h x N and B x A x h x M indices."""
    (B, h, N, d), (A, _, M, _) = own.shape, others.shape
    sizes = N, M, d, *_blocks(own, (N, 64), (M, 64))
    programs = B * h * triton.cdiv(N, sizes[3]) * triton.cdiv(d, sizes[5])
    to = torch.empty(own.shape, dtype=own.dtype, device=own.device)
    along = grad.float().contiguous(), own_at.contiguous(), other_at.contiguous()
    with torch.cuda.device_of(own):
        _sum[(programs,)](others, *along, to, *others.stride(), A, h, *sizes, **_how())
    return to


def _blocks(x: Tensor, *sides: tuple[int, int]) -> list[int]:
    """Tokens of a tile on both sides, and channels: of each type as many as 128 bytes hold."""
    limits = *sides, (x.shape[-1], 128 // x.element_size())
    return [max(16, min(most, triton.next_power_of_2(size))) for size, most in limits]


def _how() -> dict[str, object]:
    exact = torch.get_float32_matmul_precision() == "highest"
    # tiles and warps: no register is spilled on compute capability 8.0 and 9.0 (bfloat16 and float32)
    return {
        "PRECISION": "ieee" if exact else "tf32",
        "num_warps": 8,
        "num_stages": 2,
        "enable_fp_fusion": True,
    }


@triton.jit
def _locate(
    queries, keys, row, row_at, column_sum, column_at,
    q_image, q_head, q_token, q_channel, k_image, k_head, k_token, k_channel,
    B, A, h, N: tl.constexpr, M: tl.constexpr, D: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    spans: tl.constexpr = (M + BLOCK_M - 1) // BLOCK_M
    slab, span = (tl.program_id(0) // spans).to(tl.int64), tl.program_id(0) % spans
    b, a, t = slab // h // A, slab // h % A, slab % h
    written = span.to(tl.int64) * B * A * h + slab
    m = span * BLOCK_M + tl.arange(0, BLOCK_M)
    q_from, k_from = queries + b * q_image + t * q_head, keys + a * k_image + t * k_head
    column, lowest = tl.full([BLOCK_M], LEAST, tl.int32), tl.zeros([BLOCK_M], tl.int32)
    for first in range(0, N, BLOCK_N):
        n = first + tl.arange(0, BLOCK_N)
        e = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
        for channel in range(0, D, BLOCK_D):
            c = channel + tl.arange(0, BLOCK_D)
            q = tl.load(
                q_from + n[:, None] * q_token + c[None, :] * q_channel,
                mask=(n < N)[:, None] & (c < D)[None, :], other=0.0,
            )  # fmt: skip
            k = tl.load(
                k_from + c[:, None] * k_channel + m[None, :] * k_token,
                mask=(c < D)[:, None] & (m < M)[None, :], other=0.0,
            )  # fmt: skip
            e = tl.dot(q, k, e, input_precision=PRECISION)  # BLOCK_N x BLOCK_M
        ordered = tl.where((n < N)[:, None] & (m < M)[None, :], _ordered(e), LEAST)
        best = tl.max(ordered, 1)
        at = tl.min(tl.where(ordered == best[:, None], m[None, :], MOST), 1)
        tl.store(row + written * N + n, _number(best), mask=n < N)
        tl.store(row_at + written * N + n, at.to(tl.int16), mask=n < N)
        best = tl.max(ordered, 0)
        at = tl.min(tl.where(ordered == best[None, :], n[:, None], MOST), 0)
        lowest = tl.where(best > column, at, lowest)  # never of equals: the first one stays
        column = tl.maximum(best, column)
    tl.store(column_sum + written, tl.sum(tl.where(m < M, _number(column), 0.0), 0))
    tl.store(column_at + slab * M + m, lowest.to(tl.int16), mask=m < M)


@triton.jit
def _ordered(e):
    # whole numbers in the same order: negative ones run backwards, both zeros are one, NaN is above all
    bits = e.to(tl.int32, bitcast=True)
    return tl.where(e != e, MOST, tl.where(bits < 0, LEAST - bits, bits))


@triton.jit
def _number(ordered):
    return tl.where(ordered < 0, LEAST - ordered, ordered).to(tl.float32, bitcast=True)


@triton.jit
def _sum(
    others, grad, own_at, other_at, to, image, head, token, channel,
    A: tl.constexpr, h, N: tl.constexpr, M: tl.constexpr, D: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    # A is constant because Triton 3.6, torch 2.11's, cannot interpret a loop to a number that is not.
    # 1/2N [token taken] + 1/2M [taken by token], tile by tile, times the other images' tokens: the ones
    # and zeros are exact in every type, the weights stay outside of the product
    tiles: tl.constexpr = (D + BLOCK_D - 1) // BLOCK_D
    strips: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    tile, strip = tl.program_id(0) % tiles, tl.program_id(0) // tiles % strips
    slab = (tl.program_id(0) // tiles // strips).to(tl.int64)
    b, t = slab // h, slab % h
    n = strip * BLOCK_N + tl.arange(0, BLOCK_N)
    c = tile * BLOCK_D + tl.arange(0, BLOCK_D)
    other = others + t * head  # of image a
    total = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    for a in range(A):
        at = (b * A + a) * h + t
        g = tl.load(grad + at) / 2
        took = tl.load(own_at + at * N + n, mask=n < N, other=-1).to(tl.int32)
        by_rows, by_columns = tl.zeros_like(total), tl.zeros_like(total)
        for first in range(0, M, BLOCK_M):
            m = first + tl.arange(0, BLOCK_M)
            taken_by = tl.load(other_at + at * M + m, mask=m < M, other=-1).to(tl.int32)
            x = tl.load(
                other + m[:, None] * token + c[None, :] * channel,
                mask=(m < M)[:, None] & (c < D)[None, :], other=0.0,
            )  # fmt: skip
            rows = (took[:, None] == m[None, :]).to(x.dtype)  # BLOCK_N x BLOCK_M
            columns = (taken_by[None, :] == n[:, None]).to(x.dtype)
            if N == M:  # one weight for both
                by_rows = tl.dot(rows + columns, x, by_rows, input_precision=PRECISION)
            else:
                by_rows = tl.dot(rows, x, by_rows, input_precision=PRECISION)
                by_columns = tl.dot(columns, x, by_columns, input_precision=PRECISION)
        total += g / N * by_rows + g / M * by_columns
        other += image
    into = to + (slab * N + n)[:, None] * D + c[None, :]
    tl.store(into, total.to(to.dtype.element_ty), mask=(n < N)[:, None] & (c < D)[None, :])
