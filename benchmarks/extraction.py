"""Extraction from PNG files into a store, against the network alone on tensors in memory."""

import shutil
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks import pictures
from pipeline.features import backbone_weights, preprocessing
from pipeline.features.extraction import Extractor
from pipeline.features.writer import Writer


def sides(folder: Path, images: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return the Extractor and its network alone, with the same images, batches, weights and precision."""
    index = pictures.render(folder / "raw", images)
    extractor = pictures.extractor(folder / "raw", index)
    device = extractor.device
    ready = [batch.to(device) for batch in preprocessing.batches(folder / "raw", index, pictures.SPEC)]

    def whole() -> None:
        into_store(folder / "scratch", extractor)

    def bare() -> None:
        with torch.inference_mode():
            for batch in ready:
                extractor.network(batch)
        if device.type == "cuda":
            torch.cuda.synchronize()

    return whole, bare


def into_store(scratch: Path, extractor: Extractor) -> None:
    """Extract all images from files into a store in `scratch`."""
    shutil.rmtree(scratch, ignore_errors=True)
    writer = Writer(scratch, len(extractor.images), backbone_weights.grid_shape(pictures.SPEC))
    extractor.fill(writer, writer.missing)
