"""Write a feature store shard by shard. A resumed run writes only the missing shards.

C: channels of the features; H x W: cells of the feature grid.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.features import store_codec
from pipeline.features.object_storage import Location
from pipeline.features.store_codec import ARRAY
from pipeline.io.errors import InputError, writing
from pipeline.io.outputs import Contents, place, write_json, write_text
from pipeline.io.prefetch import prefetch
from pipeline.io.progress import track
from pipeline.io.scratch_folders import begin, finish

CONTENTS = Contents("store", record_outside=True)
Grids = Callable[[Sequence[int]], Iterator[np.ndarray]]
"""Function that yields the features (C, H, W) of each given row, in the store's number type."""


class Writer:
    """Writes a store shard by shard in a scratch folder. Complete shards survive a kill of the process.

    Each complete shard has its own record file, so several processes can write different shards.
    """

    def __init__(self, folder: Path, images: int, shape: tuple[int, int, int], dtype: str = "float16"):
        import tensorstore

        self.folder, self.images, self.shape, self.dtype = folder, images, shape, dtype
        self.store, self.records = folder / "store", folder / "complete"
        with writing(folder):
            begin(folder)
            if not (self.store / ARRAY / "zarr.json").exists():
                store_codec.define(self.store / ARRAY, images, shape, dtype)
            spec = store_codec.array_spec(Location(self.store)) | store_codec.WRITING
            self.array = tensorstore.open(spec, read=True, write=True).result()

    @property
    def shards(self) -> range:
        return range(math.ceil(self.images / store_codec.SHARD))

    @property
    def missing(self) -> list[int]:
        return [shard for shard in self.shards if not self._record_path(shard).exists()]

    def rows(self, shard: int) -> range:
        return range(shard * store_codec.SHARD, min((shard + 1) * store_codec.SHARD, self.images))

    def write(self, shard: int, features: np.ndarray) -> None:
        """Write one shard. `features` is (images, C, H, W), finite, in the store's number type."""
        rows = self.rows(shard)
        with writing(self.folder):
            self.array[rows.start : rows.stop].write(features).result()
            size = (self.store / store_codec.shard_file(shard)).stat().st_size
            record = [size, *map(store_codec.features_checksum, features)]
            write_text(self._record_path(shard), json.dumps(record))

    def digest(self) -> str:
        """Return a hash of the features of all images. All shards must be complete."""
        shard_records = [self._shard_record(shard) for shard in self.shards]
        return hashlib.sha256(json.dumps([sums for _, *sums in shard_records]).encode()).hexdigest()

    def finish(self, path: Path, attributes: dict[str, Any]) -> None:
        """Write the attributes, move the complete store to `path`, and remove the scratch folder."""
        shard_records = [self._shard_record(shard) for shard in self.shards]
        features_sums = [checksum for _, *checksums in shard_records for checksum in checksums]
        sums = store_codec.image_checksums(features_sums, range(self.images), attributes)
        shard_bytes = [size for size, *_ in shard_records]
        group = {"schema": store_codec.SCHEMA, "shard_bytes": shard_bytes, "sums": sums} | attributes
        write_json(self.store / "zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": group})
        place(self.store, path, CONTENTS)
        finish(self.folder)

    def _shard_record(self, shard: int) -> list[int]:
        """Return a written shard's size in bytes, then the checksum of each image's features."""
        try:
            record: list[int] = json.loads(self._record_path(shard).read_text())
            size = (self.store / store_codec.shard_file(shard)).stat().st_size
        except (FileNotFoundError, ValueError):
            record, size = [0], -1
        if record[0] != size:
            raise InputError(f"{self.folder} was changed while it was filled (shard {shard}); run it again")
        return record

    def _record_path(self, shard: int) -> Path:
        return self.records / str(shard)


def fill(writer: Writer, shards: Sequence[int], grids: Grids, description: str) -> None:
    """Write shards in threads, with the features that `grids` yields for row numbers, and show the progress.

    Shards that were written before an exception stay complete.
    """
    rows = [row for shard in shards for row in writer.rows(shard)]
    missing_images = sum(len(writer.rows(shard)) for shard in writer.missing)  # also of other processes
    written_images = writer.images - missing_images
    tracked = track(grids(rows), description, "images", written_images + len(rows), written_images)
    # each shard is a separate file, so several shards can be written at the same time
    threads = max(1, (os.cpu_count() or 1) // 4)
    blocks = ((shard, np.stack(list(islice(tracked, len(writer.rows(shard)))))) for shard in shards)
    for _ in prefetch(lambda block: writer.write(*block), blocks, threads, threads):
        pass
    next(tracked, None)  # end the progress bar
