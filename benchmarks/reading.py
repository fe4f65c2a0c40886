"""Measure the time of reading random batches of features from the page cache.

The feature store, with several codecs and shard sizes, is compared with one .npy file per image.
"""

import functools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from benchmarks import pictures
from benchmarks.reference import load_files
from pipeline.features import store_codec
from pipeline.features.store import FeatureStore
from pipeline.features.store_codec import ARRAY
from pipeline.features.writer import Writer

BATCH = 64
ROUNDS = 9
CODECS: dict[str, tuple] = {"none": ()} | {
    f"{name} {shuffle}": (BloscCodec(cname=name, clevel=level, shuffle=shuffle, typesize=2),)
    for name, level in (("lz4", 5), ("zstd", 1))
    for shuffle in ("noshuffle", "shuffle", "bitshuffle")
}
SHARDS = (64, 256, 1024)
Reader = Callable[[np.ndarray], np.ndarray]


def sides(folder: Path, images: int) -> tuple[Reader, Reader, Reader]:
    """Return three functions that read the features of images; their argument is the images' row numbers.

    The first function reads our feature store. The second reads a float32 .npy file per image. The third
    reads our feature store with zarr-python.
    """
    random = np.random.default_rng(0)
    grids = random.standard_normal((images, 1024, 14, 14), np.float32).astype(np.float16)
    opened, _ = write(folder / "s.zarr", grids)
    files(folder, grids)
    array = zarr.open_array(folder / "s.zarr", path=ARRAY, mode="r")
    return _by_row(opened), lambda rows: load_files(folder, rows), lambda rows: array.oindex[rows]


def codecs(images: int = 512) -> list[tuple[str, ...]]:
    """Return the table's rows, which show size, speed of writing and speed of reading.

    There is a row for each kind of features and each combination of codec and shard size.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        kinds = pictures.grids(root / "raw", pictures.render(root / "raw", images))
        return [row for kind, grids in kinds.items() for row in _measure(root / kind, kind, grids)]


def _measure(folder: Path, kind: str, grids: np.ndarray) -> list[tuple[str, ...]]:
    folder.mkdir()
    files(folder, grids)
    written = {}
    chosen = [(codec, 256) for codec in CODECS] + [("none", shard) for shard in SHARDS if shard != 256]
    for codec, shard in chosen:
        store_codec.CODECS, store_codec.SHARD = (*CODECS[codec], Crc32cCodec()), shard
        written[f"{codec}, shards of {shard}"] = write(folder / f"{codec}-{shard}.zarr", grids)
    readers: dict[str, Reader] = {name: _by_row(opened) for name, (opened, _) in written.items()}
    readers["npy"] = functools.partial(load_files, folder)
    seconds = _seconds(readers, grids)
    half = 64 * grids[0].nbytes / 1e6
    zeros = f"{kind} ({(grids == 0).mean():.0%} zeros)"
    return [
        (
            f"{zeros}: {name}",
            f"{_bytes(Path(opened.location.name)) / (2 * grids.nbytes):.3f} of its bytes, "
            f"written at {grids.nbytes / 1e6 / wrote:.0f} MB/s",
            f"{1000 * seconds[name]:.1f} ms, {half / seconds[name]:.0f} MB/s",
            f"{1000 * seconds['npy']:.1f} ms",
            f"{seconds['npy'] / seconds[name]:.1f}",
        )
        for name, (opened, wrote) in written.items()
    ]


def write(path: Path, grids: np.ndarray) -> tuple[FeatureStore, float]:
    """Write features into a new store; return the opened store, and the time of writing in seconds."""
    writer = Writer(path.with_suffix(".scratch"), len(grids), grids.shape[1:])
    start = time.perf_counter()
    for shard in writer.missing:
        rows = writer.rows(shard)
        writer.write(shard, grids[rows.start : rows.stop])
    took = time.perf_counter() - start
    writer.finish(path, {"keys": [str(row) for row in range(len(grids))]})
    return FeatureStore(path, {}), took


def files(folder: Path, grids: np.ndarray) -> None:
    """Write a float32 .npy file for the features of each image."""
    for row, grid in enumerate(grids):
        np.save(folder / f"{row}.npy", grid.astype(np.float32))


def _by_row(opened: FeatureStore) -> Reader:
    return lambda rows: opened.read([str(row) for row in rows])


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _seconds(readers: dict[str, Reader], grids: np.ndarray) -> dict[str, float]:
    """Check the readers' results; then return reader -> median time for a batch in seconds."""
    random = np.random.default_rng(0)
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    for turn in range(ROUNDS + 1):
        rows = random.choice(len(grids), BATCH, replace=False)
        for name, read in readers.items():
            start = time.perf_counter()
            found = read(rows)
            if turn:
                seconds[name].append(time.perf_counter() - start)
            else:
                assert np.array_equal(found, grids[rows]), name
    return {name: statistics.median(each) for name, each in seconds.items()}
