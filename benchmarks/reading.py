"""Measure the time of reading random features from the page cache: our store, .npy files, zarr-python."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import zarr

from benchmarks.measures import Row, compare
from pipeline.features.store import FeatureStore
from pipeline.features.store_codec import ARRAY
from pipeline.features.writer import Writer

IMAGES, BATCH = 512, 64


def rows() -> Iterator[Row]:
    """Yield the table's rows. A batch has the features, (1024, 14, 14), of 64 images."""
    random = np.random.default_rng(0)
    grids = random.standard_normal((IMAGES, 1024, 14, 14), np.float32).astype(np.float16)
    chosen = random.choice(IMAGES, BATCH, replace=False)
    keys = [str(row) for row in chosen]
    with tempfile.TemporaryDirectory() as folder:
        store = write(Path(folder, "s.zarr"), grids)
        for row, grid in enumerate(grids):
            np.save(Path(folder, f"{row}.npy"), grid.astype(np.float32))
        array = zarr.open_array(Path(folder, "s.zarr"), path=ARRAY, mode="r")
        ours = partial(store.read, keys)
        references = {
            "one float32 .npy an image": partial(load_files, Path(folder), keys),
            "zarr-python on the same store": lambda: array.oindex[chosen],
        }
        for against, reference in references.items():
            assert (ours() == reference()).all()
            yield compare(f"read {BATCH} images", ours, reference, against)


def write(path: Path, grids: np.ndarray) -> FeatureStore:
    """Write features into a new store; return the opened store."""
    writer = Writer(path.with_suffix(".scratch"), len(grids), grids.shape[1:])
    for shard in writer.missing:
        rows = writer.rows(shard)
        writer.write(shard, grids[rows.start : rows.stop])
    writer.finish(path, {"keys": [str(row) for row in range(len(grids))]})
    return FeatureStore(path, {})


def load_files(folder: Path, names: list[str]) -> np.ndarray:
    """Read the float32 .npy files of images, one after the other; return (images, C, H, W)."""
    return np.stack([np.load(folder / f"{name}.npy") for name in names])
