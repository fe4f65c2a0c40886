"""Prepare images for networks: decode, check, resize and batch them.

A file is checked by its SHA-256 in the dataset's index of images. A store records its method of
resizing. `pil_bicubic` is Pillow's method: when an image becomes smaller, the filter becomes wider, which
avoids aliasing. `opencv_bicubic` is OpenCV's INTER_CUBIC, which the released programs use: each result
pixel is a weighted sum of 4 x 4 pixels (Keys, 1981, with a = -0.75).

For an extraction on a GPU, worker processes decode many images. A worker writes pixels into shared memory.
The memory is divided into slots; each has room for a group of images and is used for many groups in turn.
The workers import this module, so it imports neither torch nor networks.

B: images of a batch or group; H x W: pixels of an image; S x S: pixels of a resized, square image.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from pipeline.compute import worker_processes
from pipeline.config.store_contents import Spec
from pipeline.datasets.images import PREPARE_AGAIN, Indexed, decode_array, read_bytes
from pipeline.io.errors import InputError
from pipeline.io.prefetch import prefetch

SHARED_MEMORY = Path("/dev/shm")  # folder of Linux for shared memory
SHARE = 0.5  # share of this folder's free space that is used
MOST_BYTES = 2**30  # maximum number of bytes of shared memory
GROUPS = (64, 32, 16, 8, 4, 2, 1)  # images per slot: the largest that fits, as each group costs a message
LARGEST = 16 * 2**20  # maximum size in bytes of an image that a worker process may leave unresized
MAIN_PROCESS_CORES = 2  # cores for the main process, which feeds the GPU and writes


@dataclass(frozen=True)
class _Group:
    """Images that a worker process decodes into one slot. Their arrays have the same shape."""

    memory: str  # name of the shared memory
    offset: int  # first byte of the slot
    images: Sequence[Indexed]
    shape: tuple[int, int, int]  # (H, W, 3), or (S, S, 3) if the worker process resizes the images


def decoded(root: Path, images: Sequence[Indexed], resize: str, size: int) -> Iterator[np.ndarray]:
    """Yield groups of decoded images in order, uint8 (B, H, W, 3), or resized to (B, size, size, 3).

    An array is valid only until the next group is requested. With "pil_bicubic", a group of images of one
    size keeps it, because the GPU resizes them (resizing.py).
    """
    bytes_of_image = max(
        3 * size * size, *(_bytes_of(image) for image in images if _bytes_of(image) <= LARGEST), 0
    )
    workers, slots, images_per_slot = _slots(
        max(1, (os.cpu_count() or 1) - MAIN_PROCESS_CORES), bytes_of_image
    )
    memory = SharedMemory(create=True, size=slots * images_per_slot * bytes_of_image)
    try:
        groups = []
        for number, start in enumerate(range(0, len(images), images_per_slot)):
            group = images[start : start + images_per_slot]
            shape = _shape(group, resize, size)
            groups.append(
                _Group(memory.name, number % slots * images_per_slot * bytes_of_image, group, shape)
            )
        decode_group = partial(_decode, root, resize)
        # a slot is free only when its group is consumed, so at most slots - 2 groups are decoded in advance
        finished = prefetch(decode_group, groups, workers, slots - 2, worker_processes.pool)
        for decoded_group, _ in zip(groups, finished, strict=True):
            yield _slot_array(memory, decoded_group)
    except BrokenProcessPool:
        raise InputError(
            "a process that decodes images was killed (no memory left?); run it again: it goes on"
        ) from None
    finally:
        memory.close()
        memory.unlink()


def _bytes_of(image: Indexed) -> int:
    return 3 * image.width * image.height


def _slots(most_workers: int, bytes_of_image: int) -> tuple[int, int, int]:
    """Return the numbers of workers, of slots (the memory of a group of images), and of images per slot."""
    images_that_fit = min(MOST_BYTES, int(SHARE * shutil.disk_usage(SHARED_MEMORY).free)) // bytes_of_image
    workers = max(1, min(most_workers, images_that_fit // 2))
    for images_per_slot in GROUPS:
        if (slots := images_that_fit // images_per_slot) >= 2 * workers:
            return workers, min(slots, 4 * workers), images_per_slot
    raise InputError(f"{SHARED_MEMORY} has no room for two images; make it larger (docker: --shm-size)")


def _shape(group: Sequence[Indexed], resize: str, size: int) -> tuple[int, int, int]:
    (first, *others) = {(image.height, image.width) for image in group}
    keep_size = resize == "pil_bicubic" and not others and _bytes_of(group[0]) <= LARGEST
    return (*first, 3) if keep_size else (size, size, 3)


def _slot_array(memory: SharedMemory, group: _Group) -> np.ndarray:
    return np.ndarray((len(group.images), *group.shape), np.uint8, memory.buf, group.offset)


def _decode(root: Path, resize: str, group: _Group) -> None:
    """Decode a group in a worker process into its shared memory; resize images of another shape."""
    H, W, _ = group.shape
    for pixels, image in zip(_slot_array(_shared_memory(group.memory), group), group.images, strict=True):
        decoded_pixels = decode_array(read_unchanged(root, image), str(root / image.name))
        fits_slot = decoded_pixels.shape == group.shape
        pixels[...] = (
            decoded_pixels if fits_slot else RESIZES[resize](Image.fromarray(decoded_pixels), (W, H))
        )


@cache
def _shared_memory(name: str) -> SharedMemory:
    return SharedMemory(name)


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
    """Read an image, resized by features.resize to uint8 (3, H, W); `size` is (H, W), or H = W."""
    height, width = (size, size) if isinstance(size, int) else size
    decoded = Image.fromarray(decode_array(read_unchanged(root, image), str(root / image.name)))
    return RESIZES[resize](decoded, (width, height)).transpose(2, 0, 1)


def read_unchanged(root: Path, image: Indexed) -> bytes:
    """Return the bytes of an image file. Raises InputError if their SHA-256 is not `image.sha256`."""
    data = read_bytes(root / image.name)
    if hashlib.sha256(data).hexdigest() != image.sha256:
        raise InputError(f"{root / image.name} changed since it was prepared; {PREPARE_AGAIN}")
    return data


def batches(root: Path, images: Sequence[Indexed], spec: Spec, size: int = BATCH) -> Iterator[np.ndarray]:
    """Yield batches of `size` images, uint8 (B, 3, S, S); the last may be smaller. Threads decode ahead."""
    groups = [images[start : start + size] for start in range(0, len(images), size)]
    workers = max(1, min(os.cpu_count() or 1, WORKERS, len(groups)))

    def read(group: Sequence[Indexed]) -> np.ndarray:
        return np.stack([pixels(root, image, spec.size, spec.resize) for image in group])

    return prefetch(read, groups, workers, workers + 2)
