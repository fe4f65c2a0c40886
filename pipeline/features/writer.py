"""Writing a store: shard by shard, resumed at the first one that is missing, from a stream of features."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore

from pipeline.features import store_codec
from pipeline.features.object_storage import Location
from pipeline.features.store_codec import (
    ARRAY,
    SCHEMA,
    WRITING,
    array_spec,
    bound,
    define,
    shard_file,
    sum_of,
)
from pipeline.io.errors import InputError, writing
from pipeline.io.outputs import Contents, place, write_json, write_text
from pipeline.io.progress import track
from pipeline.io.scratch_folders import begin, finish

CONTENTS = Contents("store")
Grids = Callable[[Sequence[int]], Iterator[np.ndarray]]
"""Rows of the store -> their features (C x H x W, of the store's type), one after the other."""


class Writer:
    """Write a store shard by shard in a folder of its own; what was completed before a kill is kept.

    A completed shard is recorded in a file of its own, so that several processes may write, each
    its own shards, once the first has made the folder. Raises InputError where that cannot be written.
    """

    def __init__(self, folder: Path, images: int, shape: tuple[int, int, int], dtype: str = "float16"):
        self.folder, self.images, self.shape, self.dtype = folder, images, shape, dtype
        self.store, self.log = folder / "store", folder / "complete"
        with writing(folder):
            begin(folder)
            if not (self.store / ARRAY / "zarr.json").exists():
                define(self.store / ARRAY, images, shape, dtype)
            spec = array_spec(Location(self.store)) | WRITING
            self.array = tensorstore.open(spec, read=True, write=True).result()

    @property
    def shards(self) -> range:
        """All shards of the store."""
        # named by its module, for the benchmarks try other sizes
        return range(math.ceil(self.images / store_codec.SHARD))

    @property
    def missing(self) -> list[int]:
        """The shards still to write, in order."""
        return [shard for shard in self.shards if not self._record(shard).exists()]

    def rows(self, shard: int) -> range:
        """The images of a shard."""
        return range(shard * store_codec.SHARD, min((shard + 1) * store_codec.SHARD, self.images))

    def write(self, shard: int, features: np.ndarray) -> None:
        """Write one whole shard: features (images of the shard x C x H x W), finite in the store's type."""
        rows = self.rows(shard)
        with writing(self.folder):
            self.array[rows.start : rows.stop].write(features).result()
            size = (self.store / ARRAY / shard_file(shard)).stat().st_size
            write_text(self._record(shard), json.dumps([size, *map(sum_of, features)]))

    def forget(self, shard: int) -> None:
        """Count a shard as missing."""
        self._record(shard).unlink(missing_ok=True)

    def finish(self, path: Path, attributes: dict[str, Any]) -> None:
        """Record the shards and the attributes, move the store to `path`, and remove the folder.

        Raises InputError where a shard is no longer what was written.
        """
        written = [self._written(shard) for shard in self.shards]
        sums = bound([each for _, *own in written for each in own], range(self.images), attributes)
        group = {"schema": SCHEMA, "shard_bytes": [size for size, *_ in written], "sums": sums} | attributes
        write_json(self.store / "zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": group})
        place(self.store, path, CONTENTS)
        finish(self.folder)

    def _written(self, shard: int) -> list[int]:
        """The size of a shard, and the checksum of each of its images' features."""
        try:
            record: list[int] = json.loads(self._record(shard).read_text())
            found = (self.store / ARRAY / shard_file(shard)).stat().st_size
        except (FileNotFoundError, ValueError):
            record, found = [0], -1
        if record[0] != found:
            raise InputError(f"{self.folder} was changed while it was filled (shard {shard}); run it again")
        return record

    def _record(self, shard: int) -> Path:
        return self.log / str(shard)


def fill(
    writer: Writer,
    shards: Sequence[int],
    grids: Grids,
    write: Callable[[int, np.ndarray], None],
    description: str,
) -> None:
    """Hand these shards' features (images x C x H x W) to `write`, in order, with progress.

    Raises what `grids` and `write` raise; shards written until then are kept by the writer.
    """
    rows = [row for shard in shards for row in writer.rows(shard)]
    others = sum(len(writer.rows(shard)) for shard in writer.missing) - len(rows)
    shown = track(
        grids(rows), description, "images", writer.images - others, writer.images - others - len(rows)
    )
    writing: Future[None] | None = None
    with ThreadPoolExecutor(1) as background:
        for shard in shards:
            block = _block(writer, shard, shown)
            if writing is not None:
                writing.result()
            writing = background.submit(write, shard, block)
        if writing is not None:
            writing.result()
    for _ in shown:  # nothing is left; this lets the bar come to its end
        pass


def _block(writer: Writer, shard: int, grids: Iterator[np.ndarray]) -> np.ndarray:
    """A shard's features, copied together as they come, so that batches need not wait in memory."""
    block = np.empty((len(writer.rows(shard)), *writer.shape), writer.dtype)
    for row in block:
        row[...] = next(grids)
    return block
