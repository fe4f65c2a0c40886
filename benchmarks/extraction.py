"""Extraction from PNG files into a store, against the bare network on tensors that are ready."""

import shutil
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks import pictures
from pipeline.features import extraction
from pipeline.features.writer import Writer


def sides(folder: Path, images: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """The whole Extractor, and its network alone: the same images, batches, weights and precision."""
    index = pictures.render(folder / "raw", images)
    extractor = pictures.extractor(folder / "raw", index)
    device = extractor.device
    ready = [batch.to(device) for batch in extraction.batches(folder / "raw", index, pictures.SPEC)]
    shape = extraction.grid_shape(pictures.SPEC)

    def whole() -> None:
        shutil.rmtree(folder / "scratch", ignore_errors=True)
        writer = Writer(folder / "scratch", images, shape)
        extractor.fill(writer, writer.missing)

    def bare() -> None:
        with torch.inference_mode():
            for batch in ready:
                extractor.network(batch)
        if device.type == "cuda":
            torch.cuda.synchronize()

    return whole, bare
