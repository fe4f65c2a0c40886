"""Prepare images for networks: compare them with the index, resize them to one size, and make batches.

A store records its method of resizing. `pil_bicubic` is Pillow's method. When an image becomes smaller, its
filter becomes wider, which avoids aliasing. `opencv_bicubic` is OpenCV's INTER_CUBIC, which the released
programs use: each result pixel is a weighted sum of 4 x 4 pixels (Keys, 1981, with a = -0.75).

The worker processes that decode images import this module, so it imports neither torch nor networks.

B: images of a batch; H x W: pixels of an image; S x S: pixels of a square image.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from pipeline.config.store_contents import Spec
from pipeline.datasets.images import Indexed, decode, read_bytes
from pipeline.io.errors import InputError
from pipeline.io.prefetch import prefetch

BATCH = 32  # a shard has a whole number of batches, so that a resumed extraction has the same batches
WORKERS = 8  # maximum number of decoding threads; more threads were slower


def _pillow(image: Image.Image, size: tuple[int, int]) -> np.ndarray:
    return np.asarray(image.resize(size, Image.Resampling.BICUBIC))


def _opencv(image: Image.Image, size: tuple[int, int]) -> np.ndarray:
    return cv2.resize(np.asarray(image), size, interpolation=cv2.INTER_CUBIC)


RESIZES: dict[str, Callable[[Image.Image, tuple[int, int]], np.ndarray]] = {
    "pil_bicubic": _pillow,
    "opencv_bicubic": _opencv,
}
"""Methods of resizing: name in params.yaml -> function.

The arguments of a function are an RGB image and (width, height). The result is uint8 (height, width, 3).
"""


def pixels(root: Path, image: Indexed, size: int | tuple[int, int], resize: str) -> np.ndarray:
    """Read an image, and return it resized to uint8 (3, H, W). `size` is (H, W), or S for a square image.

    Raises InputError if the file cannot be read or differs from the index.
    """
    height, width = (size, size) if isinstance(size, int) else size
    decoded = decode(read_unchanged(root, image), str(root / image.name))
    return RESIZES[resize](decoded, (width, height)).transpose(2, 0, 1)


def read_unchanged(root: Path, image: Indexed) -> bytes:
    """Return the bytes of an image's file. Raises InputError if they differ from the index."""
    data = read_bytes(root / image.name)
    if hashlib.sha256(data).hexdigest() != image.sha256:
        raise InputError(
            f"{root / image.name} changed since it was prepared; run `dvc repro` to prepare it again"
        )
    return data


def batches(root: Path, images: Sequence[Indexed], spec: Spec, size: int = BATCH) -> Iterator[np.ndarray]:
    """Yield batches of `size` images, uint8 (B, 3, S, S); the last may be smaller. Threads decode ahead."""
    groups = [images[start : start + size] for start in range(0, len(images), size)]
    workers = max(1, min(os.cpu_count() or 1, WORKERS, len(groups)))

    def read(group: Sequence[Indexed]) -> np.ndarray:
        return np.stack([pixels(root, image, spec.size, spec.resize) for image in group])

    return prefetch(read, groups, workers, workers + 2)
