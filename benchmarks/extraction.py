"""Render images, and measure how fast a network's features of them are extracted into a store."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torchvision.models.resnet import Bottleneck

from benchmarks.measures import Row, compare
from models.backbones.backbone import Backbone
from pipeline.config import params
from pipeline.config.store_contents import Spec
from pipeline.datasets.images import Indexed, index
from pipeline.features import backbone_weights, preprocessing
from pipeline.features.extraction import Extractor, attributes
from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer, fill
from pipeline.tabletop import dataset

IMAGES = 96
WIDTH, HEIGHT = 480, 320  # size of an image, as in CLEVR-Change
ROOT = Path(__file__).resolve().parent.parent
SPEC = Spec("resnet101", "untrained", 16, False, False, "pil_bicubic", 224)


def rows() -> Iterator[Row]:
    """Yield the table's row. Both sides have the same images, batches, weights and precision."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "raw")
        extractor = untrained_extractor(root, render(root, IMAGES))
        batches = [
            torch.from_numpy(batch).to(extractor.device)
            for batch in preprocessing.batches(root, extractor.images, SPEC)
        ]

        @torch.inference_mode()
        def network_alone() -> None:
            for batch in batches:
                extractor.network(batch)

        extract_all = partial(into_store, Path(folder, "scratch"), extractor)
        yield compare(f"extract {IMAGES} images", extract_all, network_alone, "the network alone", 5)


def render(root: Path, images: int) -> list[Indexed]:
    """Render three images of each scene under `root`; return the index records of the first `images`."""
    embedded = params.load(ROOT / "params.yaml").tabletop.of("tabletop")
    size = {"width": WIDTH, "height": HEIGHT, "scenes": -(-images // 3)}
    dataset.render(embedded.model_copy(update=size), root, os.cpu_count() or 1)
    files = sorted(root.glob("*images/*.png"))[:images]
    return list(index(root, [str(file.relative_to(root)) for file in files]))


def untrained_extractor(root: Path, images: list[Indexed]) -> Extractor:
    """Return an Extractor of the images with an untrained ResNet-101, in bfloat16 if the device supports it.

    The last batch norm of each residual branch is 0; otherwise features would overflow float16.
    """
    torch.manual_seed(1)
    network = Backbone(SPEC.backbone, SPEC.stride).eval()
    for module in network.modules():
        if isinstance(module, Bottleneck):
            torch.nn.init.zeros_(module.bn3.weight)
    return Extractor(network, root, images, SPEC, "auto")


def into_store(scratch: Path, extractor: Extractor) -> Writer:
    """Extract the features of all images of an Extractor; return the writer of the store in `scratch`."""
    shutil.rmtree(scratch, ignore_errors=True)
    writer = Writer(scratch, len(extractor.images), backbone_weights.grid_shape(SPEC))
    fill(writer, writer.missing, extractor.features, "extracting")
    return writer


def store(folder: Path, extractor: Extractor) -> FeatureStore:
    """Extract the features of all images of an Extractor; return the finished store, opened."""
    into_store(folder / "scratch", extractor).finish(
        folder / "store.zarr", attributes(extractor, SPEC.weights)
    )
    return FeatureStore(folder / "store.zarr", {})
