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
    """Return the token-wise matching (SCORER Eq. 2) of all pairs of images, as a tuple of one tensor.

    Queries are (B, h, N, d), keys are (A, h, M, d), and the result is (B, A, h) float32. Queries and
    keys have one of the types in TYPES, and any strides. If an image has a number that is not finite in
    a head, all matchings of this image in this head are NaN.
    """
    x, y = _factors(queries, keys)
    return ((_best_of(x, y).mean(-1) + _best_of(y, x).mean(-1).transpose(0, 1)) / 2,)


def spread(grad: Tensor, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of queries, (B, h, N, d), and keys, (A, h, M, d).

    `grad`, (B, A, h), is the gradient of the token matching (SCORER Eq. 2). If several tokens have the
    same maximum, the token with the lowest index gets the gradient. Sums are float32.

    The gradient of a pair of images is skipped if it is negligible for both images. It is negligible
    for an image if it is at most NEGLIGIBLE times the largest gradient of the image's pairs.
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
    """List, for each of B images, the other images with which its gradient is not negligible.

    `grad`, (B, A, h), has the gradient for each pair of one of the B images and one of the A other
    images, in each head. `spread` defines which gradients are negligible. Returns the number n of
    listed images, (B,), and their indices in ascending order, (B, A). Only the first n indices of an
    image are set.
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
    """Return 16-bit tensors whose dot products are nearly those of `queries` and `keys`.

    float32 tensors, (..., d), become bfloat16 tensors, (..., 6d). 16-bit tensors are returned unchanged.
    """
    if queries.dtype != torch.float32:
        return queries, keys
    q, k = _split(queries), _split(keys)
    query_parts, key_parts = (2, 0, 1, 1, 0, 0), (0, 2, 1, 0, 1, 0)  # small products are added first
    return torch.cat([q[i] for i in query_parts], -1), torch.cat([k[i] for i in key_parts], -1)


def _best_of(x: Tensor, y: Tensor) -> Tensor:
    """Return each token's highest similarity to the tokens of each image of y, (B, A, h, N), float32.

    The tokens are those of the images x, (B, h, N, d). The images y are (A, h, M, d).
    """
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
    """Return which token of each listed image of `y` is most similar to each token of `x`.

    x: tokens of B images, (B, h, N, d)
    y: tokens of A images, (A, h, M, d)
    listed: result of `_listed`: the images of `y` that are searched for each image of `x`

    The result has the type float16 and the shape (B, A, h, N). Entry [b, a, t, n] is the index of the
    token of image a that is most similar to token n of image b in head t. If image a is not listed for
    image b, the entry is undefined. If N is odd, the last dimension has one more entry, which is unused.
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
    """Return the gradient of the loss with respect to `x`, (B, h, N, d), the tokens of B images.

    y: tokens of the A images that `x` was matched with, (A, h, M, d)
    grad: gradient with respect to the result of the token-wise matching (SCORER Eq. 2), (B, A, h)
    x_at: index of the best token of `y` for each token of `x`, (B, A, h, N), from `_places_of`
    y_at: index of the best token of `x` for each token of `y`, (A, B, h, M), from `_places_of`
    listed: result of `_listed(grad)`: the images of `y` that contribute to each image of `x`
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
    """Return the numbers of tokens of a full tile, BLOCK_M, and of an image's last, partial tile, TAIL.

    M is the number of tokens of the image. BLOCK_M is at most `largest`. TAIL is 0 if no tile is partial.
    """
    block = _within(largest, M)
    return {"BLOCK_M": block, "TAIL": _within(block, M % block) if M % block else 0}


def _within(largest: int, size: int) -> int:
    """Return the lowest power of two that is at least `size`, limited to the range from 16 to `largest`."""
    return max(16, min(largest, triton.next_power_of_2(size)))


def _options(warps: int, stages: int) -> dict[str, int]:
    return {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}
