"""Images as networks see them: read as they were indexed, and squashed to one size.

The two ways of squashing differ, and a store says which it holds: `pil_bicubic` is Pillow's, whose
filter widens with the reduction (no aliasing); `opencv_bicubic` is what the released programs
used, INTER_CUBIC, which weighs 4 x 4 pixels (Keys, 1981, with a = -0.75) however far it reduces.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from pipeline.datasets.images import Indexed, decode, read_bytes
from pipeline.io.errors import InputError


def _pillow(image: Image.Image, size: tuple[int, int]) -> np.ndarray:
    return np.asarray(image.resize(size, Image.Resampling.BICUBIC))


def _opencv(image: Image.Image, size: tuple[int, int]) -> np.ndarray:
    return cv2.resize(np.asarray(image), size, interpolation=cv2.INTER_CUBIC)


RESIZES: dict[str, Callable[[Image.Image, tuple[int, int]], np.ndarray]] = {
    "pil_bicubic": _pillow,
    "opencv_bicubic": _opencv,
}
"""RGB image, (width, height) -> uint8 height x width x 3, by the name that params.yaml gives it."""


def pixels(root: Path, image: Indexed, size: int | tuple[int, int], resize: str) -> np.ndarray:
    """One image squashed to uint8 3 x H x W: `size` is (H, W), or both.

    Raises InputError where it is not what was indexed.
    """
    height, width = (size, size) if isinstance(size, int) else size
    data = read_bytes(root / image.name)
    if hashlib.sha256(data).hexdigest() != image.sha256:
        raise InputError(
            f"{root / image.name} changed since it was prepared; run `dvc repro` to prepare it again"
        )
    return RESIZES[resize](decode(data, str(root / image.name)), (width, height)).transpose(2, 0, 1)
