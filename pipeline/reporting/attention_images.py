"""Attention as the page embeds it: 8 bits a cell, base64, small enough for the whole gallery."""

import base64
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pipeline.decoding.attention_maps import Attended

ALIGNMENTS = 8_000_000  # bytes of the page at most that hold alignments
LEVELS = 255  # 0 to the map's largest value
Array = np.ndarray


def coarsening(all_of_it: Iterable[Attended]) -> int:
    """How many cells a side are put together in alignments, so that ALIGNMENTS holds all of the page's.

    A divisor of both sides of every grid: 1 where they fit as they are.
    """
    aligned = [each for each in all_of_it if each.alignment is not None]
    sides = math.gcd(*(side for each in aligned for side in each.grid))
    cells = sum(each.alignment.size for each in aligned if each.alignment is not None)
    fitting = (
        factor
        for factor in range(1, sides + 1)
        if sides % factor == 0 and cells / factor**4 * 4 / 3 <= ALIGNMENTS
    )
    return next(fitting, sides or 1)


def embedded(attended: Attended, factor: int) -> dict[str, Any]:
    """What the page's script reads of one caption: its maps, and the images' alignment where there is one.

    A map's largest value is 255; `peaks` says what share of the attention that is. `images` says how many
    maps a word has, one after another, where it is not one for both images.
    """
    height, width = attended.grid
    maps = attended.maps.reshape(-1, height * width).astype(np.float32)
    found: dict[str, Any] = {
        "grid": [height, width],
        "maps": _coded(maps),
        "peaks": [round(float(peak), 4) for peak in maps.max(1)],
    }
    if attended.images != 1:
        found["images"] = attended.images
    if attended.alignment is not None:
        coarse = coarsened(attended.alignment, (height, width), factor)
        found |= {"cells": [height // factor, width // factor], "alignment": _coded(coarse)}
    if attended.blocks is not None:
        both = np.stack(list(attended.blocks.values())).astype(np.float32)  # K x 2 x H x W
        found["blocks"] = _coded(both.reshape(-1, height * width))
    return found


def coarsened(alignment: Array, grid: Sequence[int], factor: int) -> Array:
    """N x N -> N/factor² x N/factor²: the mean of the cells that look, the sum of those looked at."""
    height, width = grid
    blocks = (height // factor, factor, width // factor, factor)
    parted = alignment.astype(np.float32).reshape(*blocks, *blocks)
    cells = (height // factor) * (width // factor)
    return parted.mean((1, 3)).sum((3, 5)).reshape(cells, cells)


def quantised(rows: Array) -> Array:
    """... x N of shares -> uint8, each row's largest value LEVELS."""
    largest = rows.max(-1, keepdims=True)
    scaled = np.divide(rows, largest, np.zeros_like(rows), where=largest > 0)
    return np.rint(LEVELS * scaled).astype(np.uint8)


def _coded(rows: Array) -> str:
    return base64.b64encode(quantised(rows).tobytes()).decode()
