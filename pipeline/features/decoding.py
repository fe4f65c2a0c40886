"""Decoding of many images by processes, for an extraction on a GPU.

A process writes pixels into memory that it shares with this program, so nothing is pickled. The memory has
slots, each for a group of images, which are used again and again. Processes import this module, so it imports
neither torch nor the network.
H x W: pixels of an image; S: pixels of the resized image's side.
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

SHARED = Path("/dev/shm")  # where Linux keeps shared memory
SHARE = 0.5  # of its free space that is used
MOST = 2**30  # bytes of shared memory
GROUPS = (64, 32, 16, 8, 4, 2, 1)  # images of a slot: the most that fit; each group costs a message
LARGEST = 16 * 2**20  # bytes of an image that is not resized by the process
OWN = 2  # cores that this program needs: it feeds the GPU and writes


@dataclass(frozen=True)
class _Group:
    """Images that a process decodes into one slot; all have one shape."""

    memory: str
    offset: int  # bytes
    images: Sequence[Indexed]
    shape: tuple[int, int, int]  # (H, W, 3), or (S, S, 3) if the process resizes


def decoded(root: Path, images: Sequence[Indexed], resize: str, size: int) -> Iterator[np.ndarray]:
    """Yield groups of images in order, uint8 (B, H, W, 3), valid until the next group is asked for.

    The images of a group have their own common size if `resize` is pil_bicubic, which the GPU computes
    (resizing.py); else they are resized, (B, S, S, 3). Raises InputError for an image that cannot be read or
    that changed, or if a process was killed.
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
        # a slot is used again when its group was consumed: two fewer are decoded ahead than there are slots
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


def _slots(most: int, bytes_: int) -> tuple[int, int, int]:
    """Return the processes, `most` or as many as the memory allows, the slots, and the images of a slot."""
    room = min(MOST, int(SHARE * shutil.disk_usage(SHARED).free)) // bytes_
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
    """Decode a group into its slot, in a worker process."""
    H, W, _ = group.shape
    for pixels, image in zip(_view(_opened(group.memory), group), group.images, strict=True):
        found = decode_array(checked(root, image), str(root / image.name))
        same = found.shape == group.shape
        pixels[...] = found if same else RESIZES[resize](Image.fromarray(found), (W, H))


@cache
def _opened(name: str) -> SharedMemory:
    return SharedMemory(name)
