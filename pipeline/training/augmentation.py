"""Augmentation of pixel inputs: mirrored and shifted images, with captions that stay correct."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

OTHER = {"left": "right", "right": "left"}
SIDE = re.compile(r"\b(left|right)\b")


@dataclass(frozen=True)
class Moved:
    """Augmentation of a scene; all its images share it."""

    mirrored: bool
    down: int  # pixels
    right: int

    def image(self, pixels: Tensor) -> Tensor:
        """Return the moved image, `(C, H, W)`; pixels that enter at an edge repeat the edge."""
        pixels = pixels.flip(-1) if self.mirrored else pixels
        for axis, shift in ((1, self.down), (2, self.right)):
            places = (torch.arange(pixels.shape[axis]) - shift).clamp(0, pixels.shape[axis] - 1)
            pixels = pixels.index_select(axis, places)
        return pixels

    def caption(self, text: str) -> str:
        """Return the caption; if the images are mirrored, left and right are exchanged."""
        return SIDE.sub(lambda found: OTHER[found[0]], text) if self.mirrored else text


def draw(scenes: Iterable[str], mirror: bool, shift: int, random: np.random.Generator) -> dict[str, Moved]:
    """Draw the augmentation of each scene, by scene id; `mirror`: mirrored with probability 1/2."""
    found: dict[str, Moved] = {}
    for scene in dict.fromkeys(scenes):
        down, right = random.integers(-shift, shift + 1, 2).tolist()
        found[scene] = Moved(mirror and random.random() < 0.5, down, right)
    return found
