"""Pictures of `tabletop` for the benchmarks, rendered anew, and features of them."""

import hashlib
import os
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
from pipeline.features.extraction import Extractor
from pipeline.tabletop import dataset

ROOT = Path(__file__).resolve().parent.parent
SPEC = Spec("resnet101", "untrained", 16, False, False, "pil_bicubic", 224)
EMBEDDED = Spec("tf_efficientnet_lite0", "imagenet", 16, True, True, "pil_bicubic", 224)


def render(root: Path, images: int) -> list[Indexed]:
    """Render 480 x 320 pictures under `root`, three a scene, and index the first `images`."""
    embedded = params.load(ROOT / "params.yaml").tabletop.of("tabletop")
    settings = embedded.model_copy(update={"scenes": -(-images // 3)})
    dataset.render(settings, root, os.cpu_count() or 1)
    files = sorted(root.glob("*images/*.png"))[:images]
    return [indexed(file, root, (settings.width, settings.height)) for file in files]


def indexed(file: Path, root: Path, size: tuple[int, int]) -> Indexed:
    """A picture's line of an index, its name relative to `root`."""
    data = file.read_bytes()
    return Indexed(str(file.relative_to(root)), *size, len(data), hashlib.sha256(data).hexdigest())


def extractor(root: Path, images: list[Indexed]) -> Extractor:
    """ResNet-101 with torchvision's own first weights; bfloat16 where the device has it.

    Residual branches are computed, and add nothing at first: else features overflow float16.
    """
    torch.manual_seed(1)
    network = Backbone(SPEC.backbone, SPEC.stride).eval()
    for module in network.modules():
        if isinstance(module, Bottleneck):
            torch.nn.init.zeros_(module.bn3.weight)
    return Extractor(network, root, images, SPEC, "auto")


def grids(root: Path, images: list[Indexed]) -> dict[str, np.ndarray]:
    """Features by kind, float16 (images x 272 x 14 x 14), of ImageNet's weights that a package brings.

    `standardised`: what the embedded dataset's store holds, dense. `as they come`: the same before it.
    `ReLU`: the first through a ReLU, as sparse as those of networks that end with one.
    """
    network, _ = backbone_weights.load(EMBEDDED)
    own = Extractor(network, root, images, EMBEDDED, "auto")
    own.standardise(ALONE, images)
    with torch.inference_mode():
        batches = preprocessing.batches(root, images, EMBEDDED)
        raw = torch.cat([own.network.raw(batch.to(own.device)) for batch in batches])
        dense = own.network.standardise(raw).half().cpu()
    kinds = {"standardised": dense, "as they come": raw.half().cpu(), "ReLU": dense.relu()}
    return {name: grid.contiguous().numpy() for name, grid in kinds.items()}
