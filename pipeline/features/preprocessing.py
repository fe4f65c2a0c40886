"""Images as networks read them: checked against the index, resized to one size, and batched.

The two ways of resizing differ, and a store names its own. `pil_bicubic` is Pillow's, whose filter widens
with the reduction (no aliasing). `opencv_bicubic` is the released programs' INTER_CUBIC, which weighs 4 x 4
pixels (Keys, 1981, with a = -0.75) at any reduction.

Decoding processes import this module, so it imports neither torch nor the network.
B: images; H x W: pixels of an image; S x S: pixels of a square image.
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

BATCH = 32  # divides a shard, so that a resumed extraction has the same batches
WORKERS = 8  # decoding threads at most: more were slower


def _pillow(image: Image.Image, size: tuple[int, int]) -> np.ndarray:
    return np.asarray(image.resize(size, Image.Resampling.BICUBIC))


def _opencv(image: Image.Image, size: tuple[int, int]) -> np.ndarray:
    return cv2.resize(np.asarray(image), size, interpolation=cv2.INTER_CUBIC)


RESIZES: dict[str, Callable[[Image.Image, tuple[int, int]], np.ndarray]] = {
    "pil_bicubic": _pillow,
    "opencv_bicubic": _opencv,
}
"""Name in params.yaml -> function of an RGB image and (width, height) to uint8 (height, width, 3)."""


def pixels(root: Path, image: Indexed, size: int | tuple[int, int], resize: str) -> np.ndarray:
    """Return an image resized to uint8 (3, H, W); `size` is (H, W), or one number for both.

    Raises InputError if the image differs from the index.
    """
    height, width = (size, size) if isinstance(size, int) else size
    picture = decode(checked(root, image), str(root / image.name))
    return RESIZES[resize](picture, (width, height)).transpose(2, 0, 1)


def checked(root: Path, image: Indexed) -> bytes:
    """Return an image's file. Raises InputError if it differs from the index."""
    data = read_bytes(root / image.name)
    if hashlib.sha256(data).hexdigest() != image.sha256:
        raise InputError(
            f"{root / image.name} changed since it was prepared; run `dvc repro` to prepare it again"
        )
    return data


def batches(root: Path, images: Sequence[Indexed], spec: Spec, size: int = BATCH) -> Iterator[np.ndarray]:
    """Yield batches of `size` images, uint8 (B, 3, S, S), decoded ahead by threads.

    Raises InputError for an image that cannot be read.
    """
    groups = [images[start : start + size] for start in range(0, len(images), size)]
    workers = max(1, min(os.cpu_count() or 1, WORKERS, len(groups)))

    def read(group: Sequence[Indexed]) -> np.ndarray:
        return np.stack([pixels(root, image, spec.size, spec.resize) for image in group])

    return prefetch(read, groups, workers, workers + 2)
