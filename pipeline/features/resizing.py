"""Resize images on any device, with exactly the results of Pillow's bicubic resizing.

Pillow multiplies 8-bit values by coefficients of 22 fractional bits, first along rows, then along columns,
and rounds after each pass. Here each pass is a matrix product of whole numbers. All sums are below 2^53, so
the products are exact in float64.

B: images; H x W: pixels of an image; S: pixels of a side of the result.
"""

from functools import cache

import numpy as np
import torch
from torch import Tensor

BITS = 22  # fractional bits of a coefficient
RADIUS = 2.0  # radius of the filter, in pixels of the smaller image (the original or the result)
A = -0.5  # parameter of the bicubic filter (Keys, 1981)


def pil_bicubic(images: Tensor, size: int) -> Tensor:
    """Resize images, uint8 (B, H, W, 3), as Pillow's Image.resize(BICUBIC). Return uint8 (B, 3, S, S)."""
    H, W = images.shape[1:3]
    across, down = (coefficients(length, size).to(images.device) for length in (W, H))
    planes = images.permute(0, 3, 1, 2).double()  # (B, 3, H, W)
    return _rounded(down @ _rounded(planes @ across.T)).to(torch.uint8)


def _rounded(sums: Tensor) -> Tensor:
    return torch.floor((sums + 2 ** (BITS - 1)) / 2**BITS).clamp(0, 255)


@cache
def coefficients(length: int, size: int) -> Tensor:
    """Return the matrix, (size, length), that resizes a line of pixels, times 2**BITS, as whole numbers."""
    scale = length / size
    reach = max(scale, 1.0)  # the filter becomes wider if the image becomes smaller
    centre = (np.arange(size)[:, None] + 0.5) * scale
    pixel = np.arange(length)[None]
    first = np.maximum(np.trunc(centre - RADIUS * reach + 0.5), 0)
    last = np.minimum(np.trunc(centre + RADIUS * reach + 0.5), length)
    weights = _cubic((pixel - centre + 0.5) / reach) * ((pixel >= first) & (pixel < last))
    weights = weights / weights.sum(1, keepdims=True) * 2**BITS
    return torch.from_numpy(np.trunc(weights + np.copysign(0.5, weights)))


def _cubic(x: np.ndarray) -> np.ndarray:
    x = np.abs(x)
    near = ((A + 2) * x - (A + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * A
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))
