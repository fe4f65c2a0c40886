"""Decode many images in worker processes, for an extraction on a GPU.

A worker process writes pixels into shared memory. The memory is divided into slots; each has room for a group
of images and is used for many groups in turn. The worker processes import this module, so it imports neither
torch nor networks.

B: images of a group; H x W: pixels of an image; S: pixels of a side of the resized image.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np
from PIL import Image

from pipeline.compute import worker_processes
from pipeline.datasets.images import Indexed, decode_array
from pipeline.features.preprocessing import RESIZES, checked
from pipeline.io.errors import InputError
from pipeline.io.prefetch import prefetch

SHARED = Path("/dev/shm")  # folder of Linux for shared memory
SHARE = 0.5  # share of this folder's free space that is used
MOST = 2**30  # maximum number of bytes of shared memory
GROUPS = (64, 32, 16, 8, 4, 2, 1)  # images per slot: the largest that fits, as each group costs a message
LARGEST = 16 * 2**20  # maximum size in bytes of an image that a worker process may leave unresized
OWN = 2  # cores for the main process, which feeds the GPU and writes


@dataclass(frozen=True)
class _Group:
    """Images that a worker process decodes into one slot. Their arrays have the same shape."""

    memory: str  # name of the shared memory
    offset: int  # first byte of the slot
    images: Sequence[Indexed]
    shape: tuple[int, int, int]  # (H, W, 3), or (S, S, 3) if the worker process resizes the images


def decoded(root: Path, images: Sequence[Indexed], resize: str, size: int) -> Iterator[np.ndarray]:
    """Yield groups of decoded images in order, uint8 (B, H, W, 3) or (B, S, S, 3).

    An array is valid only until the next group is requested. If `resize` is "pil_bicubic" and the images of a
    group have the same size, they keep this size, because the GPU resizes them (resizing.py). Otherwise they
    are resized to S = `size`. Raises InputError for an image that cannot be read or has changed, or if a
    worker process was killed.
    """
    bytes_ = max(3 * size * size, *(_bytes(image) for image in images if _bytes(image) <= LARGEST), 0)
    workers, count, number = _slots(max(1, (os.cpu_count() or 1) - OWN), bytes_)
    memory = SharedMemory(create=True, size=count * number * bytes_)
    try:
        groups = []
        for slot, start in enumerate(range(0, len(images), number)):
            group = images[start : start + number]
            shape = _shape(group, resize, size)
            groups.append(_Group(memory.name, slot % count * number * bytes_, group, shape))
        work = partial(_decode, root, resize)
        # a slot is free only when its group is consumed, so at most count - 2 groups are decoded in advance
        done = prefetch(work, groups, workers, count - 2, worker_processes.pool)
        for full, _ in zip(groups, done, strict=True):
            yield _view(memory, full)
    except BrokenProcessPool:
        raise InputError(
            "a process that decodes images was killed (no memory left?); run it again: it goes on"
        ) from None
    finally:
        memory.close()
        memory.unlink()


def _bytes(image: Indexed) -> int:
    return 3 * image.width * image.height


def _slots(most: int, bytes_of_image: int) -> tuple[int, int, int]:
    """Return the numbers of worker processes (at most `most`), of slots, and of images per slot."""
    room = min(MOST, int(SHARE * shutil.disk_usage(SHARED).free)) // bytes_of_image
    workers = max(1, min(most, room // 2))
    for number in GROUPS:
        if (count := room // number) >= 2 * workers:
            return workers, min(count, 4 * workers), number
    raise InputError(f"{SHARED} has no room for two images; make it larger (docker: --shm-size)")


def _shape(group: Sequence[Indexed], resize: str, size: int) -> tuple[int, int, int]:
    (first, *others) = {(image.height, image.width) for image in group}
    plain = resize == "pil_bicubic" and not others and _bytes(group[0]) <= LARGEST
    return (*first, 3) if plain else (size, size, 3)


def _view(memory: SharedMemory, group: _Group) -> np.ndarray:
    return np.ndarray((len(group.images), *group.shape), np.uint8, memory.buf, group.offset)


def _decode(root: Path, resize: str, group: _Group) -> None:
    """Decode the images of a group into their slot. This function runs in a worker process."""
    H, W, _ = group.shape
    for pixels, image in zip(_view(_opened(group.memory), group), group.images, strict=True):
        found = decode_array(checked(root, image), str(root / image.name))
        same = found.shape == group.shape
        pixels[...] = found if same else RESIZES[resize](Image.fromarray(found), (W, H))


@cache
def _opened(name: str) -> SharedMemory:
    return SharedMemory(name)
