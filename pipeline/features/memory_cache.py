"""Keep all features in the memory of the CPU or of a device, so that they are read from the store only once.

C: channels of the features; H x W: cells of the feature grid.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pipeline.compute import memory
from pipeline.compute.process_group import ALONE, Ranks
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.io.progress import track

BLOCK = 64  # number of images that are read at once
SHARE = 0.9  # share of the free memory that features may take; the network and its batches need the rest


class Resident:
    """The features of the images `keys`, held in the memory of `device`. Used in place of a FeatureStore.

    Each process of `ranks` holds all images, because the pairs of a process change from epoch to epoch.
    Raises InputError, before reading, if the features do not fit into the free memory.
    """

    def __init__(self, store: FeatureStore, keys: Sequence[str], device: torch.device, ranks: Ranks = ALONE):
        keys = list(dict.fromkeys(keys))
        self.shape, self.device = store.shape, device
        self.row = {key: row for row, key in enumerate(keys)}
        _check_room(len(keys), store, device, ranks.world)
        ranks.wait()  # all processes must see the free memory before one takes some
        C, H, W = self.shape
        # channels are last, because a model's first operation is a linear map of the channels of each cell
        dtype = torch.from_numpy(np.empty(0, store.dtype)).dtype
        self.features = torch.empty((len(keys), H * W, C), dtype=dtype, device=device)
        starts = range(0, len(keys), BLOCK)
        for start in track(starts, f"reading features into {device.type} memory", "blocks", len(starts)):
            block = keys[start : start + BLOCK]
            features = torch.from_numpy(store.read(block))
            self.features[start : start + len(block)] = features.flatten(2).transpose(1, 2)

    def images(self, keys: Sequence[str]) -> Tensor:
        """Return the features of images on `device`, (images, C, H, W), in the order of `keys`."""
        rows = [self.row[key] for key in keys]
        if self.device.type == "cpu":
            # NumPy gathers in this thread. torch would add threads to those of the running training step.
            # With more threads than cores, threads sleep and wake at each operation, which is slow.
            features = torch.from_numpy(self.features.numpy()[rows])  # (images, HW, C)
        else:
            features = self.features.index_select(0, torch.tensor(rows, device=self.device))
        return features.transpose(1, 2).unflatten(2, self.shape[1:])


def images(source: FeatureStore | Resident, keys: Sequence[str]) -> Tensor:
    return source.images(keys) if isinstance(source, Resident) else torch.from_numpy(source.read(keys))


def feature_source(
    store: FeatureStore, keys: Sequence[str], cache: str, device: torch.device, ranks: Ranks = ALONE
) -> FeatureStore | Resident:
    """Return the store, or for train.cache "ram" or "device" a copy of these features in memory."""
    memory_device = {"none": None, "ram": torch.device("cpu"), "device": device}[cache]
    return store if memory_device is None else Resident(store, keys, memory_device, ranks)


def _check_room(images: int, store: FeatureStore, device: torch.device, processes: int) -> None:
    copies = processes if device.type == "cpu" else 1  # each GPU has one process
    needed = copies * store.dtype.itemsize * images * int(np.prod(store.shape))
    free = memory.free(device)
    if needed > SHARE * free:
        raise InputError(
            f"train.cache: the features of {images:,} images take {needed / 1e9:.1f} GB"
            f"{f' in {copies} processes' if copies > 1 else ''}, and of the {device.type} memory "
            f"{free / 1e9:.1f} GB are free ({SHARE:.0%} to be used); set train.cache: none"
        )
