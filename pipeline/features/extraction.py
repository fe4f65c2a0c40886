"""Images -> ResNet-101 features in a store; decoding, resizing and writing overlap with the network."""

import hashlib
import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torchvision.models import ResNet101_Weights

from models.backbone import (
    CHANNELS,
    MEAN,
    STD,
    STRIDE,
    Backbone,
    for_inference,
    load_backbone,
    random_backbone,
)
from pipeline.compute import devices
from pipeline.compute.process_group import Ranks
from pipeline.datasets.images import Indexed
from pipeline.errors import InputError
from pipeline.features.preprocessing import pixels
from pipeline.features.store_contents import PixelSpec, Spec
from pipeline.features.writer import Writer, fill
from pipeline.prefetch import prefetch

BATCH = 32  # divides a shard, so that batches are the same after a resume
CALIBRATION = 64  # images that the statistics of random weights are taken from


def grid_shape(spec: Spec) -> tuple[int, int, int]:
    """Channels, height and width of an image's feature grid."""
    cells = spec.size // STRIDE[spec.layer]
    return CHANNELS[spec.layer], cells, cells


def input_shape(spec: Spec | PixelSpec) -> tuple[int, int, int]:
    """Channels, height and width of what a model reads of an image."""
    return (3, spec.height, spec.width) if isinstance(spec, PixelSpec) else grid_shape(spec)


def backbone(spec: Spec, seed: int, root: Path, calibration: Sequence[Indexed]) -> tuple[Backbone, str]:
    """The network that the spec names, and an id of its weights.

    `random` weights take their statistics from the first of the `calibration` images.
    Raises InputError where weights can't be had or don't fit.
    """
    if spec.weights == "random":
        images = calibration[:CALIBRATION]
        return random_backbone(spec.layer, seed, batches(root, images, spec)), f"random-{seed}"
    if spec.weights == "imagenet":
        name, tensors = "ResNet101_Weights.IMAGENET1K_V1", _imagenet()
    else:
        name, tensors = _file_id(Path(spec.weights)), _tensors(Path(spec.weights))
    try:
        return load_backbone(spec.layer, tensors), name
    except ValueError as error:
        raise InputError(f"{spec.weights} is no ResNet-101 of torchvision's names: {error}") from None


def _imagenet() -> dict[str, Tensor]:
    chosen = ResNet101_Weights.IMAGENET1K_V1  # what the released extractors loaded
    try:
        return dict(chosen.get_state_dict(progress=True, check_hash=True, weights_only=True))
    except OSError as error:
        folder = Path(torch.hub.get_dir()) / "checkpoints"
        file = chosen.url.rsplit("/", 1)[-1]
        raise InputError(
            f"the imagenet weights could not be downloaded ({error}); put torchvision's {file} "
            f"into {folder}, or set features.weights to a file"
        ) from None


def _tensors(path: Path) -> dict[str, Tensor]:
    """A safetensors or state-dict file, read without executing anything that it names."""
    if not path.is_file():
        raise InputError(f"features.weights: {path} is missing; name a file, or imagenet, or random")
    try:
        found = (
            load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
        )
    except Exception as error:  # what they raise on damaged files is of any kind
        reason = str(error.__context__ or error).strip().split("\n")[0]  # torch surrounds it by advice
        raise InputError(f"features.weights: {path} is no file of tensors ({reason})") from None
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise InputError(f"features.weights: {path} is no state dict (name -> tensor)")
    return found


def _file_id(path: Path) -> str:
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" if path.is_file() else str(path)


def batches(root: Path, images: Sequence[Indexed], spec: Spec) -> Iterator[Tensor]:
    """Batches of uint8 B x 3 x size x size, decoded by threads ahead of the network."""
    threads = os.cpu_count() or 1
    batch: list[np.ndarray] = []
    squash = partial(pixels, root, size=spec.size, resize=spec.resize)
    for count, image in enumerate(prefetch(squash, images, threads, 2 * BATCH), 1):
        batch.append(image)
        if len(batch) == BATCH or count == len(images):
            yield torch.from_numpy(np.stack(batch))
            batch = []


class Extractor:
    """Run a backbone over images into a Writer, one shard after the other."""

    def __init__(self, network: Backbone, root: Path, images: Sequence[Indexed], spec: Spec, precision: str):
        self.device = devices.device()
        self.dtype = devices.precision(precision, self.device)
        self.network = for_inference(network, self.dtype).to(self.device)
        self.root, self.images, self.spec = root, images, spec

    def fill(self, writer: Writer, shards: Sequence[int]) -> None:
        """Write these shards. Raises InputError for an image that broke or features that overflow."""
        fill(writer, shards, self._features, writer.write, "extracting")

    def _features(self, rows: Sequence[int]) -> Iterator[np.ndarray]:
        images = [self.images[row] for row in rows]
        computing: deque[Computing] = deque()
        done = 0
        for batch in batches(self.root, images, self.spec):
            computing.append(self._start(batch))
            if len(computing) > 1:  # one is copied back while the device computes the next
                grids = self._end(computing.popleft(), images[done:])
                yield from grids
                done += len(grids)
        while computing:
            yield from self._end(computing.popleft(), images[done:])

    @torch.inference_mode()
    def _start(self, batch: Tensor) -> "Computing":
        """Begin with a batch of uint8 images; on a GPU nothing is waited for."""
        cuda = self.device.type == "cuda"
        grids = self.network((batch.pin_memory() if cuda else batch).to(self.device, non_blocking=True))
        grids = grids.half().contiguous()  # B x C x H x W
        finite = grids.isfinite().flatten(1).all(1)
        if not cuda:
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
    """A batch on its way back from the device."""

    grids: Tensor  # B x C x H x W, float16, in the processor's memory once `copied` is over
    finite: Tensor  # B
    copied: torch.cuda.Event | None  # None on the processor: it is over


def _pinned_like(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)


def extract(extractor: Extractor, ranks: Ranks, folder: Path) -> Writer:
    """Fill a store in `folder`, each process writing its share of the shards that are missing.

    The store is the same, to the bit, whatever the number of processes. Raises as Extractor.fill does.
    """
    writer = ranks.first(lambda: Writer(folder, len(extractor.images), grid_shape(extractor.spec)))
    missing = writer.missing
    ranks.wait()  # nobody writes before all have seen what is missing
    extractor.fill(writer, ranks.share(missing))
    ranks.wait()
    return writer


def attributes(spec: Spec, weights_id: str, dtype: torch.dtype, images: Sequence[Indexed]) -> dict[str, Any]:
    """What a store says of itself: everything that decides its numbers, and which image each row is."""
    return imported_attributes(spec, weights_id, images) | {
        "backbone": "resnet101",
        "mean": list(MEAN),
        "std": list(STD),
        "precision": str(dtype).removeprefix("torch."),
    }


def imported_attributes(spec: Spec, weights_id: str, images: Sequence[Indexed]) -> dict[str, Any]:
    """The same of features made elsewhere, in float32: network and normalisation are not known here."""
    return asdict(spec) | {
        "weights_id": weights_id,
        "precision": "float32",
        "keys": [image.name for image in images],
        "sha256": [image.sha256 for image in images],
    }
