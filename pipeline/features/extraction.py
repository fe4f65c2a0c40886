"""Extract a backbone's features from images and write them to a store.

Images are decoded and resized, and features are written, while the network computes.

B: images of a batch; S: pixels of a side of an image; C: channels of the features; H x W: cells of the grid.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.backbones import backbone
from models.backbones.backbone import Backbone, for_inference
from pipeline.compute import devices
from pipeline.compute.process_group import Part, Ranks
from pipeline.config.store_contents import STATISTICS, PixelSpec, Spec
from pipeline.datasets.images import Indexed
from pipeline.features.backbone_weights import grid_shape
from pipeline.features.preprocessing import batches, decoded, pixels
from pipeline.features.resizing import pil_bicubic
from pipeline.features.writer import Grids, Writer, fill
from pipeline.io.errors import InputError
from pipeline.io.prefetch import prefetch

# for more images than this, worker processes decode; for fewer, their start takes too long
MOST_FOR_THREADS = 4_000
# images of a batch on a GPU; a shard has a whole number of batches, so resuming does not change the batches
GPU_BATCH = 128
BATCHES_AHEAD = 1  # batches that the device computes while another batch is copied back
READ_AHEAD = 64  # images that are read in advance, for stores of pixels
STATISTICS_IMAGES = 64  # number of train images for the channel statistics


class Extractor:
    """Computes a backbone's features of images."""

    def __init__(self, network: Backbone, root: Path, images: Sequence[Indexed], spec: Spec, precision: str):
        self.device = devices.device()
        self.dtype = devices.precision(precision, self.device)
        self.network = for_inference(network, self.dtype).to(self.device)
        self.root, self.images, self.spec = root, images, spec

    def standardise(self, ranks: Ranks, train: Sequence[Indexed]) -> None:
        """Compute the channels' statistics over the first STATISTICS_IMAGES, the same in all processes."""
        statistics = self.network.standardise
        if statistics is None:
            return
        if not train:
            raise InputError("features.standardise: there is no train image to take the statistics from")
        if ranks.rank == 0 or isinstance(ranks, Part):
            images = batches(self.root, train[:STATISTICS_IMAGES], self.spec)
            backbone.take_statistics(
                self.network, (torch.from_numpy(batch).to(self.device) for batch in images)
            )
        ranks.agree(statistics)

    def features(self, rows: Sequence[int]) -> Iterator[np.ndarray]:
        """Yield the features, (C, H, W), of the images at these positions, for writer.fill."""
        images = [self.images[row] for row in rows]
        computing: deque[tuple[Computing, Sequence[Indexed]]] = deque()
        done = 0
        for batch in self._batches(images):
            computing.append((self._start(batch), images[done : done + len(batch)]))
            done += len(batch)
            if len(computing) > BATCHES_AHEAD:  # copy a batch back while the device computes the next ones
                yield from self._end(*computing.popleft())
        while computing:
            yield from self._end(*computing.popleft())

    def _batches(self, images: Sequence[Indexed]) -> Iterator[Tensor]:
        """Yield batches of images on the device, uint8 (B, 3, S, S)."""
        if self.device.type == "cpu":
            yield from map(torch.from_numpy, batches(self.root, images, self.spec))
        elif len(images) <= MOST_FOR_THREADS:
            for batch in batches(self.root, images, self.spec, GPU_BATCH):
                yield devices.upload(torch.from_numpy(batch))
        else:
            groups = decoded(self.root, images, self.spec.resize, self.spec.size)
            yield from _rebatched((self._resized(group) for group in groups), GPU_BATCH)

    def _resized(self, group: np.ndarray) -> Tensor:
        """Return images (B, height, width, 3) on the device as (B, 3, S, S), resized if necessary."""
        pixels, size = devices.upload(torch.from_numpy(group)), self.spec.size
        is_resized = pixels.shape[1:3] == (size, size)
        return pixels.permute(0, 3, 1, 2) if is_resized else pil_bicubic(pixels, size)

    @torch.inference_mode()
    def _start(self, batch: Tensor) -> "Computing":
        """Start to compute the features of uint8 images; on a GPU, return before this is done."""
        grids = self.network(batch)
        grids = grids.half().contiguous()  # (B, C, H, W)
        finite = grids.isfinite().flatten(1).all(1)
        if self.device.type == "cpu":
            return Computing(grids, finite, None)
        copied = torch.cuda.Event()
        computing = Computing(_pinned_like(grids), _pinned_like(finite), copied)
        computing.grids.copy_(grids, non_blocking=True)
        computing.finite.copy_(finite, non_blocking=True)
        copied.record()
        return computing

    def _end(self, computing: "Computing", images: Sequence[Indexed]) -> np.ndarray:
        if computing.copied is not None:
            computing.copied.synchronize()
        for image, finite in zip(images, computing.finite.tolist(), strict=True):
            if not finite:
                raise InputError(f"the features of {image.name} overflow float16; use other features.weights")
        return computing.grids.numpy()


@dataclass(frozen=True)
class Computing:
    """Features of a batch, in CPU memory.

    If a GPU computes the features, they can be read only after the event `copied`.
    """

    grids: Tensor  # features (B, C, H, W), float16
    finite: Tensor  # (B,): whether all features of an image are finite
    copied: torch.cuda.Event | None  # None if the CPU computed the features


def _rebatched(groups: Iterable[Tensor], size: int) -> Iterator[Tensor]:
    """Regroup images: yield batches of `size` images. The last batch may be smaller."""
    waiting: list[Tensor] = []
    for group in groups:
        waiting.append(group)
        while sum(map(len, waiting)) >= size:
            joined = torch.cat(waiting)
            yield joined[:size]
            waiting = [joined[size:]]
    if sum(map(len, waiting)):
        yield torch.cat(waiting)


def _pinned_like(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)


def _fill_shared(ranks: Ranks, make_writer: Callable[[], Writer], grids: Grids, description: str) -> Writer:
    """Make a store in the first process, and fill its missing shards in all; return its writer."""
    writer = ranks.first(make_writer)
    missing = writer.missing
    ranks.wait()  # all processes must list the missing shards before one writes
    fill(writer, ranks.share(missing), grids, description)
    ranks.wait()
    return writer


def extract(extractor: Extractor, ranks: Ranks, folder: Path) -> Writer:
    """Extract features into a store in `folder`, keeping its shards; the writer's `finish` completes it."""
    shape = grid_shape(extractor.spec)
    return _fill_shared(
        ranks, lambda: Writer(folder, len(extractor.images), shape), extractor.features, "extracting"
    )


def extract_pixels(
    root: Path, images: Sequence[Indexed], spec: PixelSpec, ranks: Ranks, folder: Path
) -> Writer:
    """Write images, as uint8 (3, height, width), to a store for models that have an image encoder."""
    squash = partial(pixels, root, size=(spec.height, spec.width), resize=spec.resize)

    def read(rows: Sequence[int]) -> Iterator[np.ndarray]:
        return prefetch(squash, [images[row] for row in rows], os.cpu_count() or 1, READ_AHEAD)

    shape = 3, spec.height, spec.width
    return _fill_shared(ranks, lambda: Writer(folder, len(images), shape, "uint8"), read, "reading pixels")


def attributes(extractor: Extractor, weights_id: str) -> dict[str, Any]:
    """Return a store's attributes: everything that its features depend on, and its images' names in order."""
    network = extractor.network
    network_attributes: dict[str, Any] = {
        "mean": network.pixel_mean.flatten().tolist(),
        "std": network.pixel_std.flatten().tolist(),
        "precision": str(extractor.dtype).removeprefix("torch."),
    }
    if network.standardise is not None:
        network_attributes[STATISTICS] = {
            key: tensor.tolist() for key, tensor in network.standardise.state_dict().items()
        }
    return imported_attributes(extractor.spec, weights_id, extractor.images) | network_attributes


def imported_attributes(spec: Spec, weights_id: str, images: Sequence[Indexed]) -> dict[str, Any]:
    return store_attributes(spec, images) | {"weights_id": weights_id, "precision": "float32"}


def store_attributes(spec: Spec | PixelSpec, images: Sequence[Indexed]) -> dict[str, Any]:
    """Return the attributes that every store has. A store of pixels has only these."""
    return asdict(spec) | {
        "keys": [image.name for image in images],
        "sha256": [image.sha256 for image in images],
    }
