"""Extraction of a backbone's features from images into a store.

Decoding, resizing and writing overlap with the network. Tensors are (B, C, H, W): images of a batch,
channels, height and width of the feature grid.
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
from pipeline.features.decoding import decoded
from pipeline.features.preprocessing import batches, pixels
from pipeline.features.resizing import pil_bicubic
from pipeline.features.writer import Writer, fill
from pipeline.io.errors import InputError
from pipeline.io.prefetch import prefetch

MANY = 4_000  # images from which on decoding processes are worth their start
GPU_BATCH = 128  # images of a batch on a GPU; divides a shard, so that a resumed extraction has the same
AHEAD = 1  # batches that the device computes while one is copied back
READ_AHEAD = 64  # images in memory before they are asked for, for stores of pixels
STANDARD = 64  # train images for the channel statistics


class Extractor:
    """Runs a backbone over images and writes the features with a Writer, shard by shard."""

    def __init__(self, network: Backbone, root: Path, images: Sequence[Indexed], spec: Spec, precision: str):
        self.device = devices.device()
        self.dtype = devices.precision(precision, self.device)
        self.network = for_inference(network, self.dtype).to(self.device)
        self.root, self.images, self.spec = root, images, spec

    def standardise(self, ranks: Ranks, train: Sequence[Indexed]) -> None:
        """Compute channel statistics from the first STANDARD images of `train`.

        Every process gets the same values. Does nothing if the spec does not standardise. Raises InputError
        if there is no image.
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
        """Write these shards. Raises InputError for an image that broke or features that overflow."""
        fill(writer, shards, self._features, writer.write, "extracting")

    def _features(self, rows: Sequence[int]) -> Iterator[np.ndarray]:
        images = [self.images[row] for row in rows]
        computing: deque[Computing] = deque()
        done = 0
        for batch in self._batches(images):
            computing.append(self._start(batch))
            if len(computing) > AHEAD:  # copy a batch back while the device computes the next ones
                grids = self._end(computing.popleft(), images[done:])
                yield from grids
                done += len(grids)
        while computing:
            grids = self._end(computing.popleft(), images[done:])
            yield from grids
            done += len(grids)

    def _batches(self, images: Sequence[Indexed]) -> Iterator[Tensor]:
        """Yield batches on the device, uint8 (B, 3, S, S); many images are decoded by processes."""
        if self.device.type == "cpu":
            yield from map(torch.from_numpy, batches(self.root, images, self.spec))
        elif len(images) <= MANY:
            for batch in batches(self.root, images, self.spec, GPU_BATCH):
                yield devices.upload(torch.from_numpy(batch))
        else:
            groups = decoded(self.root, images, self.spec.resize, self.spec.size)
            yield from _joined((self._resized(group) for group in groups), GPU_BATCH)

    def _resized(self, group: np.ndarray) -> Tensor:
        """Resize images on the device: (B, H, W, 3) -> (B, 3, S, S); images of that size are unchanged."""
        there, size = devices.upload(torch.from_numpy(group)), self.spec.size
        same = there.shape[1:3] == (size, size)
        return there.permute(0, 3, 1, 2) if same else pil_bicubic(there, size)

    @torch.inference_mode()
    def _start(self, batch: Tensor) -> "Computing":
        """Start a batch of uint8 images on the device; on a GPU this does not wait."""
        grids = self.network(batch)
        grids = grids.half().contiguous()  # (B, C, H, W)
        finite = grids.isfinite().flatten(1).all(1)
        if self.device.type == "cpu":
            return Computing(grids, finite, None)
        copied = torch.cuda.Event()
        back = Computing(_pinned_like(grids), _pinned_like(finite), copied)
        back.grids.copy_(grids, non_blocking=True)
        back.finite.copy_(finite, non_blocking=True)
        copied.record()
        return back

    def _end(self, back: "Computing", images: Sequence[Indexed]) -> np.ndarray:
        if back.copied is not None:
            back.copied.synchronize()
        for image, finite in zip(images, back.finite.tolist(), strict=False):
            if not finite:
                raise InputError(f"the features of {image.name} overflow float16; use other features.weights")
        return back.grids.numpy()


@dataclass(frozen=True)
class Computing:
    """A batch that is being copied back from the device."""

    grids: Tensor  # (B, C, H, W), float16, in CPU memory after the event `copied`
    finite: Tensor  # (B,)
    copied: torch.cuda.Event | None  # None on a CPU: nothing is copied


def _joined(groups: Iterable[Tensor], size: int) -> Iterator[Tensor]:
    """Join groups of images to batches of `size` images; the last one may be smaller."""
    waiting: list[Tensor] = []
    for group in groups:
        waiting.append(group)
        while sum(map(len, waiting)) >= size:
            whole = torch.cat(waiting)
            yield whole[:size]
            waiting = [whole[size:]]
    if sum(map(len, waiting)):
        yield torch.cat(waiting)


def _pinned_like(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)


def _shared(
    ranks: Ranks, make: Callable[[], Writer], fill: Callable[[Writer, Sequence[int]], None]
) -> Writer:
    """Make a store; each process fills its share of the missing shards."""
    writer = ranks.first(make)
    missing = writer.missing
    ranks.wait()  # all processes must list the missing shards before one writes
    fill(writer, ranks.share(missing))
    ranks.wait()
    return writer


def extract(extractor: Extractor, ranks: Ranks, folder: Path) -> Writer:
    """Fill a store in `folder`; its bytes do not depend on the number of processes.

    Raises InputError for an image that broke or features that overflow.
    """
    shape = grid_shape(extractor.spec)
    return _shared(ranks, lambda: Writer(folder, len(extractor.images), shape), extractor.fill)


def extract_pixels(
    root: Path, images: Sequence[Indexed], spec: PixelSpec, ranks: Ranks, folder: Path
) -> Writer:
    """Fill a store with images resized to uint8 (3, H, W), for models with their own encoder.

    Raises InputError for an image that differs from the index.
    """
    squash = partial(pixels, root, size=(spec.height, spec.width), resize=spec.resize)

    def read(rows: Sequence[int]) -> Iterator[np.ndarray]:
        return prefetch(squash, [images[row] for row in rows], os.cpu_count() or 1, READ_AHEAD)

    return _shared(
        ranks,
        lambda: Writer(folder, len(images), (3, spec.height, spec.width), "uint8"),
        lambda writer, shards: fill(writer, shards, read, writer.write, "reading pixels"),
    )


def attributes(extractor: Extractor, weights_id: str) -> dict[str, Any]:
    """Return a store's attributes: everything that decides its numbers, and the image of each row."""
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
    """Return the attributes of features made elsewhere, in float32, by an unknown network."""
    return stored(spec, images) | {"weights_id": weights_id, "precision": "float32"}


def stored(spec: Spec | PixelSpec, images: Sequence[Indexed]) -> dict[str, Any]:
    """Return the attributes that every store has; a store of pixels has no others."""
    return asdict(spec) | {
        "keys": [image.name for image in images],
        "sha256": [image.sha256 for image in images],
    }
