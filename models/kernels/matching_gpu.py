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
    """Return TM (SCORER Eq. 2), (B, A, h), of queries, (B, h, N, d), and keys, (A, h, M, d).

    Operands have one of TYPES, and any strides. Similarities and result are float32. If an operand contains a
    number that is not finite, all matchings of its image and head are NaN.
    """
    x, y = _factors(queries, keys)
    return ((_best_of(x, y).mean(-1) + _best_of(y, x).mean(-1).transpose(0, 1)) / 2,)


def spread(grad: Tensor, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Map the gradient of TM, (B, A, h), to gradients of queries (B, h, N, d) and keys (A, h, M, d).

    On a tie the token with the lowest index gets the gradient. Sums are float32. A pair of images is skipped
    if its gradient is at most NEGLIGIBLE times the largest gradient of each of the two images.
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
    """List, for each of the B images, the other images for which `grad`, (B, A, h), is not negligible.

    Returns the number n of listed images, (B,), and their indices in ascending order, (B, A). Only the
    first n indices of an image are set.
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
    rest = x - high
    middle = rest.bfloat16()
    return high, middle, (rest - middle).bfloat16()


def _factors(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return 16-bit tensors whose dot products are nearly those of `queries` and `keys`.

    float32 tensors, (..., d), become bfloat16 tensors, (..., 6d). 16-bit tensors are returned unchanged.
    """
    if queries.dtype != torch.float32:
        return queries, keys
    q, k = _split(queries), _split(keys)
    left, right = (2, 0, 1, 1, 0, 0), (0, 2, 1, 0, 1, 0)  # small products are added first
    return torch.cat([q[i] for i in left], -1), torch.cat([k[i] for i in right], -1)


def _best_of(own: Tensor, others: Tensor) -> Tensor:
    """Return each token's highest similarity to a token of each other image, (B, A, h, N), float32."""
    (B, h, N, d), (A, _, M, _) = own.shape, others.shape
    best = own.new_empty(B, A, h, N, dtype=torch.float32)
    sizes, how = _nearest_tiles(M, d)
    images = min(A, IMAGES)
    programs = triton.cdiv(B * N, sizes["BLOCK_N"]), h * triton.cdiv(A, images)
    with torch.cuda.device_of(own):
        matching_kernels.nearest[programs](
            own, others, best, *own.stride(), *others.stride(), B, A, h, N, M, d, images, **sizes, **how
        )  # fmt: skip
    return best


def _places_of(own: Tensor, others: Tensor, listed: tuple[Tensor, Tensor]) -> Tensor:
    """Return the index, as a float16 number, of each token's most similar token in each listed image.

    The result is (B, A, h, N), or (B, A, h, N + 1) if N is odd. Values of images that are not listed are
    not set.
    """
    (B, h, N, d), (A, _, M, _) = own.shape, others.shape
    at = own.new_empty(B, A, h, N + N % 2, dtype=torch.float16)
    sizes, how = _nearest_tiles(M, d)
    with torch.cuda.device_of(own):
        matching_kernels.places[triton.cdiv(N, sizes["BLOCK_N"]), B * h](
            own, others, *listed, at, *own.stride(), *others.stride(), A, h, N, M, d, **sizes, **how
        )  # fmt: skip
    return at


def _gather(
    own: Tensor, others: Tensor, grad: Tensor, own_at: Tensor, other_at: Tensor, listed: tuple[Tensor, Tensor]
) -> Tensor:
    """Return the gradient of `own`, (B, h, N, d), from the gradient of TM, (B, A, h).

    `own_at`, (B, A, h, N), and `other_at`, (A, B, h, M), are the results of `_places_of`.
    """
    (B, h, N, d), (A, _, M, _) = own.shape, others.shape
    sizes, how = _sum_tiles(own, N, M, d)
    parts = torch.stack(_split(others)) if others.dtype == torch.float32 else others[None]
    programs = triton.cdiv(N, sizes["BLOCK_N"]) * triton.cdiv(d, sizes["BLOCK_D"]), B * h
    to = torch.empty(own.shape, dtype=own.dtype, device=own.device)
    with torch.cuda.device_of(own):
        matching_kernels.sum_gradients[programs](
            parts, grad, *grad.stride(), own_at, other_at.view(torch.int32), *listed, to,
            *parts.stride(), len(parts), B, A, h, N, M, d, **sizes, **how,
        )  # fmt: skip
    return to


def _nearest_tiles(M: int, d: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return tile sizes and compile options of the kernels `nearest` and `places`, tuned on an H200."""
    # a tile has all channels, or 64 at a time
    side, how = (64, _how(4, 2)) if d <= 64 else (128, _how(8, 3))
    return {"BLOCK_N": 128, **_tiles(M, side), "BLOCK_D": _within(64, d)}, how


def _sum_tiles(x: Tensor, N: int, M: int, d: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return tile sizes and compile options of the kernel `sum_gradients`, tuned on an H200."""
    sizes = {"BLOCK_N": _within(128, N), **_tiles(M, 64), "BLOCK_D": _within(64, d)}
    room = torch.cuda.get_device_properties(x.device).shared_memory_per_block_optin if x.is_cuda else 0
    return sizes, _how(4, 2 if room >= ROOM and x.dtype != torch.float32 else 1)


def _tiles(M: int, most: int) -> dict[str, int]:
    """Return the numbers of tokens of a full tile, BLOCK_M, and of an image's last, partial tile, TAIL.

    M is the number of tokens of the image. BLOCK_M is at most `most`. TAIL is 0 if no tile is partial.
    """
    block = _within(most, M)
    return {"BLOCK_M": block, "TAIL": _within(block, M % block) if M % block else 0}


def _within(most: int, size: int) -> int:
    """Return the lowest power of two that is at least `size`, limited to the range from 16 to `most`."""
    return max(16, min(most, triton.next_power_of_2(size)))


def _how(warps: int, stages: int) -> dict[str, int]:
    return {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}
