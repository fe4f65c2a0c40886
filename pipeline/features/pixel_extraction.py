"""Images -> their own pixels in a store, squashed to one size: for models with their own image encoder."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.compute.process_group import Ranks
from pipeline.datasets.images import Indexed
from pipeline.features.preprocessing import pixels
from pipeline.features.store_contents import PixelSpec
from pipeline.features.writer import Writer, fill
from pipeline.prefetch import prefetch

AHEAD = 64  # images in memory before they are asked for


def extract(
    root: Path, images: Sequence[Indexed], spec: PixelSpec, ranks: Ranks, folder: Path, threads: int
) -> Writer:
    """Fill a store of uint8 3 x H x W in `folder`, each process its share of the shards that are missing.

    Raises InputError for an image that is not what was indexed.
    """
    shape = (3, spec.height, spec.width)
    writer = ranks.first(lambda: Writer(folder, len(images), shape, "uint8"))
    missing = writer.missing
    ranks.wait()  # nobody writes before all have seen what is missing
    squash = partial(pixels, root, size=(spec.height, spec.width), resize=spec.resize)

    def read(rows: Sequence[int]) -> Iterator[np.ndarray]:
        return prefetch(squash, [images[row] for row in rows], threads, AHEAD)

    fill(writer, ranks.share(missing), read, writer.write, "reading pixels")
    ranks.wait()
    return writer


def attributes(spec: PixelSpec, images: Sequence[Indexed]) -> dict[str, Any]:
    """What a store says of itself: everything that decides its numbers, and which image each row is."""
    return asdict(spec) | {
        "keys": [image.name for image in images],
        "sha256": [image.sha256 for image in images],
    }
