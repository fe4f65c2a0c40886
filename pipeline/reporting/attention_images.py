"""Encode attention maps and weights for the page, with 8 bits per cell, in base64.

H, W: rows and columns of the grid of cells. K: number of blocks of the image encoder.
"""

import base64
from typing import Any

import numpy as np

from pipeline.decoding.attention_maps import Attended

LEVELS = 255  # the byte of a map's largest value
PHRASES = {"difference": "the difference"}  # input of the decoder -> its name in sentences
Array = np.ndarray


def embedded(attended: Attended) -> dict[str, Any]:
    """Return a caption's attention as a dictionary, for the page's script. Maps are texts in base64.

    Keys of the result:
    - `grid`: rows and columns of the maps
    - `maps`: the maps of the words; the maximum of each map is scaled to 255
    - `peaks`: the maximum of each map before scaling
    - `images`: number of maps per word; absent if it is 1
    - `alignment`: attention from the after image's cells to the before image's; absent if unknown
    - `blocks`: maps of the image encoder's blocks; absent without such maps
    - `weighed`, `weights`: names of the decoder's inputs, and weights in percent; absent without weights
    """
    height, width = attended.grid
    maps = attended.maps.reshape(-1, height * width).astype(np.float32)
    encoded: dict[str, Any] = {
        "grid": [height, width],
        "maps": _base64(maps),
        "peaks": [round(float(peak), 4) for peak in maps.max(1)],
    }
    if attended.images != 1:
        encoded["images"] = attended.images
    if attended.alignment is not None:
        encoded["alignment"] = _base64(attended.alignment.astype(np.float32))
    if attended.blocks is not None:
        both_images = np.stack(list(attended.blocks.values())).astype(np.float32)  # (K, 2, H, W)
        encoded["blocks"] = _base64(both_images.reshape(-1, height * width))
    if attended.weights is not None:
        encoded |= {"weighed": phrases(attended), "weights": percents(attended)}
    return encoded


def phrases(attended: Attended) -> list[str]:
    """Return the names of the decoder's weighted inputs, in words that fit into a sentence.

    For example, the input `difference` is named "the difference".
    """
    return [PHRASES.get(name, name) for name in attended.weighed]


def percents(attended: Attended) -> list[list[int]]:
    """Return, for each word, the weights in percent that the decoder gives to its inputs.

    The result has a list of numbers for each word. It is empty if the decoder gives no weights.
    """
    if attended.weights is None:
        return []
    return np.rint(100 * attended.weights.astype(np.float32)).astype(int).tolist()


def quantised(rows: Array) -> Array:
    """Return `rows`, (..., N), as uint8. Each row of N values is scaled, so that its maximum is LEVELS."""
    largest = rows.max(-1, keepdims=True)
    scaled = np.divide(rows, largest, np.zeros_like(rows), where=largest > 0)
    return np.rint(LEVELS * scaled).astype(np.uint8)


def _base64(rows: Array) -> str:
    return base64.b64encode(quantised(rows).tobytes()).decode()
