"""Extract a backbone's features from images and write them to a store.

Images are decoded and resized, and features are written, while the network computes.

B: images of a batch; S: pixels of a side of an image; C: channels of the features; H x W: cells of the grid.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from models.backbones import backbone
from models.backbones.backbone import Backbone, for_inference
from pipeline.compute import devices
from pipeline.compute.process_group import Part, Ranks
from pipeline.config.store_contents import STATISTICS, PixelSpec, Spec
from pipeline.datasets.images import Indexed
from pipeline.features.backbone_weights import grid_shape
from pipeline.features.preprocessing import BATCH, batches, pixels
from pipeline.features.writer import Writer, fill
from pipeline.io.errors import InputError
from pipeline.io.prefetch import prefetch

MANY = 4_000  # for more images than this, worker processes decode; for fewer, their start takes too long
# images of a batch on a GPU; a shard has a whole number of batches, so resuming does not change the batches
GPU_BATCH = 128
READ_AHEAD = 64  # images that are read in advance, for stores of pixels
STANDARD = 64  # number of train images for the channel statistics


class Extractor:
    """Computes a backbone's features of images, and writes them with a Writer, shard by shard."""

    def __init__(self, network: Backbone, root: Path, images: Sequence[Indexed], spec: Spec, precision: str):
        self.device = devices.device()
        self.dtype = devices.precision(precision, self.device)
        self.network = for_inference(network, self.dtype).to(self.device)
        self.root, self.images, self.spec = root, images, spec

    def standardise(self, ranks: Ranks, train: Sequence[Indexed]) -> None:
        """Compute the network's channel statistics, if any, from the first STANDARD images of `train`.

        All processes get the same values. Raises InputError if `train` has no image.
        """
        part = self.network.standardise
        if part is None:
            return
        if not train:
            raise InputError("features.standardise: there is no train image to take the statistics from")
        if ranks.rank == 0 or isinstance(ranks, Part):
            images = batches(self.root, train[:STANDARD], self.spec)
            backbone.take_statistics(
                self.network, (torch.from_numpy(batch).to(self.device) for batch in images)
            )
        ranks.agree(part)

    def fill(self, writer: Writer, shards: Sequence[int]) -> None:
        """Compute and write the features of shards. Raises InputError if features overflow float16."""
        fill(writer, shards, self._features, "extracting")

    def _features(self, rows: Sequence[int]) -> Iterator[np.ndarray]:
        images = [self.images[row] for row in rows]
        on_gpu, done = self.device.type != "cpu", 0
        size = GPU_BATCH if on_gpu else BATCH
        for batch in batches(self.root, images, self.spec, size, on_gpu and len(images) > MANY):
            grids, finite = self._computed(batch)
            if not finite.all():
                name = images[done + int(finite.argmin())].name
                raise InputError(f"the features of {name} overflow float16; use other features.weights")
            yield from grids
            done += len(batch)

    @torch.inference_mode()
    def _computed(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return features of uint8 images (B, 3, S, S): (B, C, H, W) float16, and which are finite, (B,)."""
        grids = self.network(devices.upload(torch.from_numpy(batch))).half().contiguous()
        finite = grids.isfinite().flatten(1).all(1)
        return grids.cpu().numpy(), finite.cpu().numpy()


def _shared(
    ranks: Ranks, make: Callable[[], Writer], fill: Callable[[Writer, Sequence[int]], None]
) -> Writer:
    """Let the first process make a store, fill this process's shards, and return the writer."""
    writer = ranks.first(make)
    missing = writer.missing
    ranks.wait()  # all processes must list the missing shards before one writes
    fill(writer, ranks.share(missing))
    ranks.wait()
    return writer


def extract(extractor: Extractor, ranks: Ranks, folder: Path) -> Writer:
    """Extract all features into a store in `folder`. Its bytes do not depend on the number of processes."""
    shape = grid_shape(extractor.spec)
    return _shared(ranks, lambda: Writer(folder, len(extractor.images), shape), extractor.fill)


def extract_pixels(
    root: Path, images: Sequence[Indexed], spec: PixelSpec, ranks: Ranks, folder: Path
) -> Writer:
    """Write images, as uint8 pixels (3, height, width), to a store for models that have an image encoder."""
    squash = partial(pixels, root, size=(spec.height, spec.width), resize=spec.resize)

    def read(rows: Sequence[int]) -> Iterator[np.ndarray]:
        return prefetch(squash, [images[row] for row in rows], os.cpu_count() or 1, READ_AHEAD)

    return _shared(
        ranks,
        lambda: Writer(folder, len(images), (3, spec.height, spec.width), "uint8"),
        lambda writer, shards: fill(writer, shards, read, "reading pixels"),
    )


def attributes(extractor: Extractor, weights_id: str) -> dict[str, Any]:
    """Return a store's attributes: all that its features depend on, and the image of each row."""
    network = extractor.network
    made: dict[str, Any] = {
        "mean": network.pixel_mean.flatten().tolist(),
        "std": network.pixel_std.flatten().tolist(),
        "precision": str(extractor.dtype).removeprefix("torch."),
    }
    if network.standardise is not None:
        made[STATISTICS] = {key: each.tolist() for key, each in network.standardise.state_dict().items()}
    return imported_attributes(extractor.spec, weights_id, extractor.images) | made


def imported_attributes(spec: Spec, weights_id: str, images: Sequence[Indexed]) -> dict[str, Any]:
    """Return the attributes of a store of imported features, which an unknown network computed in float32."""
    return stored(spec, images) | {"weights_id": weights_id, "precision": "float32"}


def stored(spec: Spec | PixelSpec, images: Sequence[Indexed]) -> dict[str, Any]:
    """Return the attributes that every store has. A store of pixels has only these."""
    return asdict(spec) | {
        "keys": [image.name for image in images],
        "sha256": [image.sha256 for image in images],
    }
