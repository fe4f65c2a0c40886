"""Images -> batches of pixels, decoded and squashed ahead of the network.

A module of its own, for each process that decodes imports it: of the network it brings nothing.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pipeline.compute import worker_processes
from pipeline.config.store_contents import Spec
from pipeline.datasets.images import Indexed
from pipeline.features.preprocessing import pixels
from pipeline.io.errors import InputError
from pipeline.io.prefetch import prefetch

BATCH = 32  # divides a shard, so that batches are the same after a resume
WORKERS = 8  # that decode, at most: more threads were slower, and batches of 8 fit in 64 MB of shared memory


def batches(
    root: Path, images: Sequence[Indexed], spec: Spec, processes: bool = False, size: int = BATCH
) -> Iterator[Tensor]:
    """Batches of `size` images, uint8 B x 3 x S x S, decoded ahead of the network by threads or processes.

    Threads stand in each other's way: beside an H200 735 images a second came of them, of processes 1,263.
    Raises InputError for an image that broke, and where a process was killed.
    """
    groups = [images[start : start + size] for start in range(0, len(images), size)]
    workers = max(1, min(os.cpu_count() or 1, WORKERS, len(groups)))
    squash = partial(_squashed, root, spec.size, spec.resize)
    pool = worker_processes.pool if processes else ThreadPoolExecutor
    try:
        yield from prefetch(squash, groups, workers, workers + 2, pool)
    except BrokenProcessPool:
        raise InputError(
            "a process that decodes images was killed (no memory left?); run it again: it goes on"
        ) from None


def _squashed(root: Path, size: int, resize: str, images: Sequence[Indexed]) -> Tensor:
    """A tensor, for that goes from process to process in shared memory."""
    return torch.from_numpy(np.stack([pixels(root, image, size, resize) for image in images]))
