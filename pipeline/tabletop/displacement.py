"""How far a change of viewpoint moves what stands on the table, in cells of the feature grid."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

GRID = 14  # cells a side: what ResNet-101's layer3 has at 224 pixels


@dataclass(frozen=True)
class Moved:
    """Distances between an object's places in two views, in cells: their median and 0.9 quantile."""

    median: float
    most: float


def moved(scenes: Sequence[dict[str, Any]], width: int, height: int) -> Moved:
    """Of all objects, from the default to the distractor view, by their boxes in scenes.json.

    `width` and `height` of the pictures, in pixels: they are squashed to the square that the grid divides.
    """
    steps = [
        math.dist(_cell(there, width, height), _cell(here, width, height))
        for scene in scenes
        for there, here in zip(
            scene["views"]["default"]["boxes"], scene["views"]["nonsemantic"]["boxes"], strict=True
        )
    ]
    return Moved(float(np.median(steps)), float(np.quantile(steps, 0.9)))


def _cell(box: Sequence[int], width: int, height: int) -> tuple[float, float]:
    """Where the middle of a box x, y, width, height lies on the grid."""
    return (box[0] + box[2] / 2) / width * GRID, (box[1] + box[3] / 2) / height * GRID
