"""WebDataset shards: tar files in which the files with the same key form a sample.

A sample has KEY.before.EXT, KEY.after.EXT and KEY.json. Tools end a key at the first dot of a file name. So
the key is a number without dots, and the pair id is in the JSON.
"""

import io
import json
import tarfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pipeline.datasets.schema import Pair

FOLDER = "webdataset"
PAIRS = 1000  # pairs per shard
NAME = "{split}-{number:06d}.tar"


def write(folder: Path, split: str, images: Path, pairs: Iterator[tuple[Pair, dict[str, Any]]]) -> None:
    """Write the pairs of a split and their rows as shards in `folder`. Equal pairs give equal bytes.

    `images` is the folder with the images of the pairs.
    """
    parts = iter(lambda: list(islice(pairs, PAIRS)), [])
    for number, part in enumerate(parts):
        with tarfile.open(folder / NAME.format(split=split, number=number), "w") as shard:
            for place, (pair, row) in enumerate(part, number * PAIRS):
                _add_sample(shard, f"{place:08d}", images, pair, row)


def _add_sample(shard: tarfile.TarFile, key: str, images: Path, pair: Pair, row: dict[str, Any]) -> None:
    for side, name in (("before", pair.before), ("after", pair.after)):
        _add(shard, f"{key}.{side}{_extension(name)}", (images / name).read_bytes())
    _add(shard, f"{key}.json", json.dumps(row, ensure_ascii=False).encode())


def _extension(name: str) -> str:
    return Path(name).suffix.lower() or ".img"


def _add(shard: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)  # without a time or an owner
    entry.size = len(data)
    shard.addfile(entry, io.BytesIO(data))
