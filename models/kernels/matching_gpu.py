"""Token matching on a GPU (Triton): maxima of the similarities, and gradients through the maxima.

The forward pass computes only the maxima. The backward pass searches the places of the maxima again, but
only for pairs of images whose gradient is not negligible; after some training, these are few. There are no
atomic additions and no tuning at run time, so results are the same on every run. float32 operands are split
into three bfloat16 parts.
B, A: images; N, M: their tokens; h: heads; d: width of a head, which the kernels call D.
"""

import torch
import triton
from torch import Tensor

from models.kernels import matching_kernels

TYPES = (torch.bfloat16, torch.float16, torch.float32)
MOST_TOKENS = 2048  # of an image: places are float16, which represents all whole numbers up to 2048
NEGLIGIBLE = 2.0**-20  # share of the largest gradient of an image, below which a pair's gradient is skipped
IMAGES = 16  # other images per program of `nearest`
ROOM = 128 * 1024  # tiles are read ahead if a GPU has at least this many bytes of shared memory


def locate(queries: Tensor, keys: Tensor) -> tuple[Tensor]:
    """Match queries with keys (SCORER Eq. 2): (B, h, N, d), (A, h, M, d) -> (B, A, h); NaN if not finite."""
    x, y = _factors(queries, keys)
    return ((_best_of(x, y).mean(-1) + _best_of(y, x).mean(-1).transpose(0, 1)) / 2,)


def spread(grad: Tensor, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of queries, (B, h, N, d), and keys, (A, h, M, d), from `grad`, (B, A, h).

    On a tie the token with the lowest index gets the gradient. Sums are float32. The gradient of a pair is
    skipped if, for both images, it is at most NEGLIGIBLE times the largest gradient of the image's pairs.
    """
    grad = grad.float()
    by_row, by_column = _listed(grad), _listed(grad.transpose(0, 1))
    x, y = _factors(queries, keys)
    row_at, column_at = _places_of(x, y, by_row), _places_of(y, x, by_column)
    return (
        _gather(queries, keys, grad, row_at, column_at, by_row),
        _gather(keys, queries, grad.transpose(0, 1), column_at, row_at, by_column),
    )


def _listed(grad: Tensor) -> tuple[Tensor, Tensor]:
    """List, for each of B images, the other images for which `grad`, (B, A, h), is not negligible.

    Returns the number n of listed images, (B,), and their ascending indices, (B, A), of which only the first
    n are set. `spread` defines what is negligible.
    """
    size = torch.linalg.vector_norm(grad, torch.inf, -1)  # (B, A)
    B, A = size.shape
    count = torch.empty(B, dtype=torch.int32, device=grad.device)
    which = torch.empty(B, A, dtype=torch.int32, device=grad.device)
    with torch.cuda.device_of(grad):
        matching_kernels.list_active[(B,)](
            size, size.amax(1), size.amax(0), count, which, *size.stride(), A, NEGLIGIBLE,
            BLOCK=triton.next_power_of_2(A), num_warps=4,
        )  # fmt: skip
    return count, which


def _split(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return three bfloat16 tensors whose sum is x, the largest first."""
    high = x.bfloat16()
    remainder = x - high
    middle = remainder.bfloat16()
    return high, middle, (remainder - middle).bfloat16()


def _factors(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return 16-bit tensors of nearly the same dot products: float32 (..., d) -> bfloat16 (..., 6d)."""
    if queries.dtype != torch.float32:
        return queries, keys
    q, k = _split(queries), _split(keys)
    query_parts, key_parts = (2, 0, 1, 1, 0, 0), (0, 2, 1, 0, 1, 0)  # small products are added first
    return torch.cat([q[i] for i in query_parts], -1), torch.cat([k[i] for i in key_parts], -1)


def _best_of(x: Tensor, y: Tensor) -> Tensor:
    """Return each token's best similarity in each image: (B, h, N, d), (A, h, M, d) -> (B, A, h, N)."""
    (B, h, N, d), (A, _, M, _) = x.shape, y.shape
    best = x.new_empty(B, A, h, N, dtype=torch.float32)
    sizes, options = _nearest_tiles(M, d)
    images = min(A, IMAGES)
    programs = triton.cdiv(B * N, sizes["BLOCK_N"]), h * triton.cdiv(A, images)
    with torch.cuda.device_of(x):
        matching_kernels.nearest[programs](
            x, y, best, *x.stride(), *y.stride(), B, A, h, N, M, d, images, **sizes, **options
        )  # fmt: skip
    return best


def _places_of(x: Tensor, y: Tensor, listed: tuple[Tensor, Tensor]) -> Tensor:
    """Return the token of each `listed` image of y, (A, h, M, d), that is most similar to each token of x.

    x is (B, h, N, d); the result, float16, (B, A, h, N), is undefined for images that are not listed. An odd
    N gets one more, unused entry.
    """
    (B, h, N, d), (A, _, M, _) = x.shape, y.shape
    indices = x.new_empty(B, A, h, N + N % 2, dtype=torch.float16)
    sizes, options = _nearest_tiles(M, d)
    with torch.cuda.device_of(x):
        matching_kernels.places[triton.cdiv(N, sizes["BLOCK_N"]), B * h](
            x, y, *listed, indices, *x.stride(), *y.stride(), A, h, N, M, d, **sizes, **options
        )  # fmt: skip
    return indices


def _gather(
    x: Tensor, y: Tensor, grad: Tensor, x_at: Tensor, y_at: Tensor, listed: tuple[Tensor, Tensor]
) -> Tensor:
    """Return the gradient with respect to x, (B, h, N, d), from `grad`, (B, A, h), that of the matching.

    y: the tokens, (A, h, M, d), that x was matched with; `listed`: its images that contribute to each image
        of x
    x_at, y_at: the best token of y for each of x, (B, A, h, N), and of x for each of y, (A, B, h, M)
    """
    (B, h, N, d), (A, _, M, _) = x.shape, y.shape
    sizes, options = _sum_tiles(x, N, M, d)
    parts = torch.stack(_split(y)) if y.dtype == torch.float32 else y[None]
    programs = triton.cdiv(N, sizes["BLOCK_N"]) * triton.cdiv(d, sizes["BLOCK_D"]), B * h
    result = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    with torch.cuda.device_of(x):
        matching_kernels.sum_gradients[programs](
            parts, grad, *grad.stride(), x_at, y_at.view(torch.int32), *listed, result,
            *parts.stride(), len(parts), B, A, h, N, M, d, **sizes, **options,
        )  # fmt: skip
    return result


def _nearest_tiles(M: int, d: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return tile sizes and compile options of the kernels `nearest` and `places`, tuned on an H200."""
    # a tile has all channels, or 64 at a time
    side, options = (64, _options(4, 2)) if d <= 64 else (128, _options(8, 3))
    return {"BLOCK_N": 128, **_tiles(M, side), "BLOCK_D": _within(64, d)}, options


def _sum_tiles(x: Tensor, N: int, M: int, d: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return tile sizes and compile options of the kernel `sum_gradients`, tuned on an H200."""
    sizes = {"BLOCK_N": _within(128, N), **_tiles(M, 64), "BLOCK_D": _within(64, d)}
    room = torch.cuda.get_device_properties(x.device).shared_memory_per_block_optin if x.is_cuda else 0
    return sizes, _options(4, 2 if room >= ROOM and x.dtype != torch.float32 else 1)


def _tiles(M: int, largest: int) -> dict[str, int]:
    """Return the tokens of a full tile, BLOCK_M, and of the last, partial tile, TAIL (0: none), of M."""
    block = _within(largest, M)
    return {"BLOCK_M": block, "TAIL": _within(block, M % block) if M % block else 0}


def _within(largest: int, size: int) -> int:
    return max(16, min(largest, triton.next_power_of_2(size)))


def _options(warps: int, stages: int) -> dict[str, int]:
    return {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}
