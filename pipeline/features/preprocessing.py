"""Prepare images for networks: compare them with the index, resize them to one size, and make batches.

`pil_bicubic` is Pillow's method of resizing, which avoids aliasing. `opencv_bicubic` is INTER_CUBIC of the
released programs. Worker processes import this module, so it imports neither torch nor networks.

B: images; H x W: pixels of an image; S x S: pixels of a square image.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from pipeline.compute import worker_processes
from pipeline.config.store_contents import Spec
from pipeline.datasets.images import Indexed, decode, read_bytes
from pipeline.io.errors import InputError
from pipeline.io.prefetch import prefetch

BATCH = 32  # a shard has a whole number of batches, so that a resumed extraction has the same batches
WORKERS = 8  # maximum number of decoding threads; more threads were slower
OWN = 2  # cores for the main process next to decoding processes: it feeds the GPU and writes


def _pillow(image: Image.Image, size: tuple[int, int]) -> np.ndarray:
    return np.asarray(image.resize(size, Image.Resampling.BICUBIC))


def _opencv(image: Image.Image, size: tuple[int, int]) -> np.ndarray:
    return cv2.resize(np.asarray(image), size, interpolation=cv2.INTER_CUBIC)


RESIZES = {"pil_bicubic": _pillow, "opencv_bicubic": _opencv}
"""Name in params.yaml -> function of an RGB image and (width, height), to uint8 (height, width, 3)."""


def pixels(root: Path, image: Indexed, size: int | tuple[int, int], resize: str) -> np.ndarray:
    """Read an image, and return it resized to uint8 (3, H, W). `size` is (H, W), or S for a square image.

    Raises InputError if the file cannot be read or differs from the index.
    """
    height, width = (size, size) if isinstance(size, int) else size
    picture = decode(checked(root, image), str(root / image.name))
    return RESIZES[resize](picture, (width, height)).transpose(2, 0, 1)


def checked(root: Path, image: Indexed) -> bytes:
    """Return the bytes of an image's file. Raises InputError if they differ from the index."""
    data = read_bytes(root / image.name)
    if hashlib.sha256(data).hexdigest() != image.sha256:
        raise InputError(
            f"{root / image.name} changed since it was prepared; run `dvc repro` to prepare it again"
        )
    return data


def batches(
    root: Path, images: Sequence[Indexed], spec: Spec, size: int = BATCH, processes: bool = False
) -> Iterator[np.ndarray]:
    """Yield batches of `size` images, uint8 (B, 3, S, S). The last batch may be smaller.

    Threads decode some batches in advance, or worker processes, which start slowly and decode faster. Raises
    InputError for an image that cannot be read or differs from the index, or if a worker process is killed.
    """
    groups = [images[start : start + size] for start in range(0, len(images), size)]
    cores = os.cpu_count() or 1
    workers = max(1, min(cores - OWN if processes else min(cores, WORKERS), len(groups)))
    pool = worker_processes.pool if processes else ThreadPoolExecutor
    try:
        yield from prefetch(partial(_batch, root, spec), groups, workers, workers + 2, pool)
    except BrokenProcessPool:
        raise InputError(
            "a process that decodes images was killed (no memory left?); run it again: it goes on"
        ) from None


def _batch(root: Path, spec: Spec, images: Sequence[Indexed]) -> np.ndarray:
    return np.stack([pixels(root, image, spec.size, spec.resize) for image in images])
