"""Features held in memory, the processor's or a device's: read once, then gathered without a file."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pipeline import memory
from pipeline.errors import InputError
from pipeline.progress import track
from pipeline.store import FeatureStore

BLOCK = 64  # images read at once
SHARE = 0.9  # of the free memory; the rest is for the network and its batches


class Resident:
    """Features of `keys` in float16 in the memory of `device`, with the interface of FeatureStore.

    Raises InputError, before anything is read, where they do not fit into what is free.
    """

    def __init__(self, store: FeatureStore, keys: Sequence[str], device: torch.device):
        keys = list(dict.fromkeys(keys))
        self.name, self.shape, self.device = store.location.name, store.shape, device
        self.row = {key: row for row, key in enumerate(keys)}
        _check_room(len(keys), self.shape, device)
        C, H, W = self.shape
        # channels last: the first thing that a model does is a linear map of each cell's channels
        self.features = torch.empty((len(keys), H * W, C), dtype=torch.float16, device=device)
        starts = range(0, len(keys), BLOCK)
        for start in track(starts, f"reading features into {device.type} memory", "blocks", len(starts)):
            block = keys[start : start + BLOCK]
            read = torch.from_numpy(store.read(block))
            self.features[start : start + len(block)] = read.flatten(2).transpose(1, 2)

    def images(self, keys: Sequence[str]) -> Tensor:
        """Features of the images on the device, images x C x H x W, in the order of `keys`."""
        try:
            rows = [self.row[key] for key in keys]
        except KeyError as error:
            raise InputError(f"image {error} of {self.name} was not read into memory") from None
        found = self.features.index_select(0, torch.tensor(rows, device=self.device))  # images x HW x C
        return found.transpose(1, 2).unflatten(2, self.shape[1:])

    def read(self, keys: Sequence[str]) -> np.ndarray:
        """The same in the processor's memory, as FeatureStore reads them."""
        return self.images(keys).cpu().numpy()


def images(source: FeatureStore | Resident, keys: Sequence[str]) -> Tensor:
    """Features of the images, images x C x H x W, float16, where the source has them."""
    return source.images(keys) if isinstance(source, Resident) else torch.from_numpy(source.read(keys))


def held(
    store: FeatureStore, keys: Sequence[str], cache: str, device: torch.device
) -> FeatureStore | Resident:
    """What `train.cache` names: none (the store itself), ram, or device (the training's)."""
    if cache == "none":
        return store
    return Resident(store, keys, {"ram": torch.device("cpu"), "device": device}[cache])


def _check_room(images: int, shape: tuple[int, int, int], device: torch.device) -> None:
    wanted = images * int(np.prod(shape)) * 2
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else memory.free()
    if free is None:
        raise InputError("train.cache: how much memory is free is not known here; set train.cache: none")
    if wanted > SHARE * free:
        raise InputError(
            f"train.cache: the features of {images:,} images take {wanted / 1e9:.1f} GB, and of the "
            f"{device.type} memory {free / 1e9:.1f} GB are free ({SHARE:.0%} to be used); "
            "set train.cache: none"
        )
