"""Rendered images of `tabletop` for the benchmarks, their features, and extraction into a store."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torchvision.models.resnet import Bottleneck

from models.backbones.backbone import Backbone
from pipeline.compute.process_group import ALONE
from pipeline.config import params
from pipeline.config.store_contents import Spec
from pipeline.datasets.images import Indexed
from pipeline.features import backbone_weights, preprocessing
from pipeline.features.extraction import Extractor, attributes
from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer
from pipeline.tabletop import dataset

WIDTH, HEIGHT = 480, 320  # CLEVR-Change's
ROOT = Path(__file__).resolve().parent.parent
SPEC = Spec("resnet101", "untrained", 16, False, False, "pil_bicubic", 224)
EMBEDDED = Spec("tf_efficientnet_lite0", "imagenet", 16, True, True, "pil_bicubic", 224)


def render(root: Path, images: int) -> list[Indexed]:
    """Render images of 480 x 320 under `root`, three per scene, and index the first `images`."""
    embedded = params.load(ROOT / "params.yaml").tabletop.of("tabletop")
    size = {"width": WIDTH, "height": HEIGHT}
    settings = embedded.model_copy(update=size | {"scenes": -(-images // 3)})
    dataset.render(settings, root, os.cpu_count() or 1)
    files = sorted(root.glob("*images/*.png"))[:images]
    return [indexed(file, root, (WIDTH, HEIGHT)) for file in files]


def indexed(file: Path, root: Path, size: tuple[int, int]) -> Indexed:
    """Return an image's index record, with its name relative to `root`."""
    data = file.read_bytes()
    return Indexed(str(file.relative_to(root)), *size, len(data), hashlib.sha256(data).hexdigest())


def extractor(root: Path, images: list[Indexed]) -> Extractor:
    """Return ResNet-101 with torchvision's initial weights; bfloat16 if the device has it.

    The last batch norm of each residual branch is 0: otherwise features overflow float16.
    """
    torch.manual_seed(1)
    network = Backbone(SPEC.backbone, SPEC.stride).eval()
    for module in network.modules():
        if isinstance(module, Bottleneck):
            torch.nn.init.zeros_(module.bn3.weight)
    return Extractor(network, root, images, SPEC, "auto")


def grids(root: Path, images: list[Indexed]) -> dict[str, np.ndarray]:
    """Return features by kind, float16 (images, 272, 14, 14), of a package's ImageNet weights.

    `standardised`: as in the embedded dataset's store, dense; `as they come`: before standardisation; `ReLU`:
    the standardised features after a ReLU, which makes them sparse.
    """
    network, _ = backbone_weights.load(EMBEDDED)
    own = Extractor(network, root, images, EMBEDDED, "auto")
    own.standardise(ALONE, images)
    with torch.inference_mode():
        batches = preprocessing.batches(root, images, EMBEDDED)
        raw = torch.cat([own.network.raw(torch.from_numpy(batch).to(own.device)) for batch in batches])
        dense = own.network.standardise(raw).half().cpu()
    kinds = {"standardised": dense, "as they come": raw.half().cpu(), "ReLU": dense.relu()}
    return {name: grid.contiguous().numpy() for name, grid in kinds.items()}


def sides(folder: Path, images: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return the Extractor and its network alone, with the same images, batches, weights and precision."""
    index = render(folder / "raw", images)
    own = extractor(folder / "raw", index)
    device = own.device
    ready = [
        torch.from_numpy(batch).to(device) for batch in preprocessing.batches(folder / "raw", index, SPEC)
    ]

    def whole() -> None:
        into_store(folder / "scratch", own)

    def bare() -> None:
        with torch.inference_mode():
            for batch in ready:
                own.network(batch)
        if device.type == "cuda":
            torch.cuda.synchronize()

    return whole, bare


def into_store(scratch: Path, own: Extractor) -> Writer:
    """Extract all of an extractor's images from files into a store in `scratch`."""
    shutil.rmtree(scratch, ignore_errors=True)
    writer = Writer(scratch, len(own.images), backbone_weights.grid_shape(SPEC))
    own.fill(writer, writer.missing)
    return writer


def store(folder: Path, own: Extractor) -> FeatureStore:
    """Extract all images, and open the finished store."""
    into_store(folder / "scratch", own).finish(folder / "store.zarr", attributes(own, SPEC.weights))
    return FeatureStore(folder / "store.zarr", {})
