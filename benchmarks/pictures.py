"""Render images of the dataset `tabletop` for the benchmarks, and extract their features."""

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

WIDTH, HEIGHT = 480, 320  # size of an image, as in CLEVR-Change
ROOT = Path(__file__).resolve().parent.parent
SPEC = Spec("resnet101", "untrained", 16, False, False, "pil_bicubic", 224)
EMBEDDED = Spec("tf_efficientnet_lite0", "imagenet", 16, True, True, "pil_bicubic", 224)


def render(root: Path, images: int) -> list[Indexed]:
    """Render images of 480 x 320 pixels under `root`, three of each scene.

    Returns the index records of the first `images` images.
    """
    embedded = params.load(ROOT / "params.yaml").tabletop.of("tabletop")
    size = {"width": WIDTH, "height": HEIGHT}
    settings = embedded.model_copy(update=size | {"scenes": -(-images // 3)})
    dataset.render(settings, root, os.cpu_count() or 1)
    files = sorted(root.glob("*images/*.png"))[:images]
    return [indexed(file, root, (WIDTH, HEIGHT)) for file in files]


def indexed(file: Path, root: Path, size: tuple[int, int]) -> Indexed:
    """Return the index record of an image file. The image's name is its path relative to `root`."""
    data = file.read_bytes()
    return Indexed(str(file.relative_to(root)), *size, len(data), hashlib.sha256(data).hexdigest())


def extractor(root: Path, images: list[Indexed]) -> Extractor:
    """Return an Extractor of the images with an untrained ResNet-101.

    It computes in bfloat16 if the device supports bfloat16.

    The weights are torchvision's initial weights, except that the last batch norm of each residual branch is
    0. Otherwise features would overflow float16.
    """
    torch.manual_seed(1)
    network = Backbone(SPEC.backbone, SPEC.stride).eval()
    for module in network.modules():
        if isinstance(module, Bottleneck):
            torch.nn.init.zeros_(module.bn3.weight)
    return Extractor(network, root, images, SPEC, "auto")


def grids(root: Path, images: list[Indexed]) -> dict[str, np.ndarray]:
    """Return kind -> features of the images, float16, (images, 272, 14, 14).

    The backbone has ImageNet weights. The kinds are:

    standardised: features as in the feature store of the dataset `tabletop`
    as they come: features before standardisation
    ReLU: standardised features after a ReLU, which makes many of them 0
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
    """Return two functions: one extracts features of images into a store, the other only runs the network.

    Both use the same images, batches, weights and precision.
    """
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
    """Extract the features of all images of an Extractor; return the writer of the store in `scratch`."""
    shutil.rmtree(scratch, ignore_errors=True)
    writer = Writer(scratch, len(own.images), backbone_weights.grid_shape(SPEC))
    own.fill(writer, writer.missing)
    return writer


def store(folder: Path, own: Extractor) -> FeatureStore:
    """Extract the features of all images of an Extractor; return the finished store, opened."""
    into_store(folder / "scratch", own).finish(folder / "store.zarr", attributes(own, SPEC.weights))
    return FeatureStore(folder / "store.zarr", {})
