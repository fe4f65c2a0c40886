"""More scenes out of few, of pixels: mirrored and shifted ones, whose captions stay true."""

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
    """What is done to all images of a scene."""

    mirrored: bool
    down: int  # pixels
    right: int

    def image(self, pixels: Tensor) -> Tensor:
        """C x H x W -> the same, moved; what comes in at an edge repeats it."""
        pixels = pixels.flip(-1) if self.mirrored else pixels
        for axis, shift in ((1, self.down), (2, self.right)):
            places = (torch.arange(pixels.shape[axis]) - shift).clamp(0, pixels.shape[axis] - 1)
            pixels = pixels.index_select(axis, places)
        return pixels

    def caption(self, text: str) -> str:
        """Left and right exchanged, where the picture is mirrored."""
        return SIDE.sub(lambda found: OTHER[found[0]], text) if self.mirrored else text


def draw(scenes: Iterable[str], mirror: bool, shift: int, random: np.random.Generator) -> dict[str, Moved]:
    """How the scenes of an iteration are moved, by their ids: mirrored with probability 1/2."""
    found: dict[str, Moved] = {}
    for scene in dict.fromkeys(scenes):
        down, right = random.integers(-shift, shift + 1, 2).tolist()
        found[scene] = Moved(mirror and random.random() < 0.5, down, right)
    return found
