"""Pictures of `tabletop` for the benchmarks, rendered anew, and features of them."""

import hashlib
import os
from pathlib import Path

import numpy as np
import torch

from models.backbone import Backbone, calibrate
from pipeline import params
from pipeline.compute import devices
from pipeline.datasets.images import Indexed
from pipeline.features import extraction
from pipeline.features.extraction import Extractor
from pipeline.features.store_contents import Spec
from pipeline.tabletop import dataset

ROOT = Path(__file__).resolve().parent.parent
SPEC = Spec("random", "layer3", "pil_bicubic", 224)


def render(root: Path, images: int) -> list[Indexed]:
    """Render 480 x 320 pictures under `root`, three a scene, and index the first `images`."""
    settings = params.load(ROOT / "params.yaml").tabletop.model_copy(update={"scenes": -(-images // 3)})
    dataset.render(settings, root, os.cpu_count() or 1)
    files = sorted(root.glob("*images/*.png"))[:images]
    return [indexed(file, root, (settings.width, settings.height)) for file in files]


def indexed(file: Path, root: Path, size: tuple[int, int]) -> Indexed:
    """A picture's line of an index, its name relative to `root`."""
    data = file.read_bytes()
    return Indexed(str(file.relative_to(root)), *size, len(data), hashlib.sha256(data).hexdigest())


def extractor(root: Path, images: list[Indexed]) -> Extractor:
    """A network of which every block counts; bfloat16 where the device has it.

    Torchvision's own first weights, calibrated on the pictures. Most blocks of `random` weights add nothing
    and are left out: to time them would flatter.
    """
    torch.manual_seed(1)
    network = calibrate(
        Backbone(SPEC.layer), extraction.batches(root, images[: extraction.CALIBRATION], SPEC)
    )
    return Extractor(network, root, images, SPEC, "auto")


def grids(root: Path, images: list[Indexed]) -> dict[str, np.ndarray]:
    """Features by kind, float16 (images x 1024 x 14 x 14), real but for ImageNet's weights.

    `standardised`: what `random` weights store, dense. `as they come`: the same before it, a ReLU's.
    `ReLU`: the first through a ReLU, as sparse as trained weights' may be.
    """
    weights, _ = extraction.backbone(SPEC, 1, root, images)
    network = Extractor(weights, root, images, SPEC, "auto").network.to(devices.device())
    standardise = network.stages.standardise
    del network.stages.standardise
    with torch.inference_mode():
        batches = extraction.batches(root, images, SPEC)
        raw = [network(batch.to(devices.device())) for batch in batches]
        dense = torch.cat([standardise(grid).half().cpu() for grid in raw])
        plain = torch.cat([grid.half().cpu() for grid in raw])
    kinds = {"standardised": dense, "as they come": plain, "ReLU": dense.relu()}
    return {name: grid.contiguous().numpy() for name, grid in kinds.items()}
