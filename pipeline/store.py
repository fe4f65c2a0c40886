"""The feature store: the only module that knows chunks, shards, codecs and attributes.

A Zarr v3 group whose array `features` holds images x C x H x W in float16: one chunk an
image, 256 images a shard, crc32c on every chunk and on the shard's index. A MISSING shard
reads as zeros without a word in every Zarr reader, so the group's attributes record each
shard's size, and opening the store checks them.

zarr-python writes (any Zarr v3 reader opens the store), TensorStore reads: random batches
came 50 times faster through it.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from pipeline.errors import InputError
from pipeline.outputs import replacing, write_json

SCHEMA = 1
SHARD = 256
ARRAY = "features"
REMEDY = "run `dvc repro extract` to make it again"


class Writer:
    """Write a store shard by shard in a folder of its own; what was completed before a kill is kept.

    The attributes say what the features are; a folder with other attributes is refused.
    """

    def __init__(self, folder: Path, images: int, shape: tuple[int, int, int]):
        self.folder, self.images = folder, images
        self.array = _array(folder, images, shape)
        self.log = folder / "complete.json"
        self.complete: dict[str, int] = json.loads(self.log.read_text()) if self.log.exists() else {}

    @property
    def missing(self) -> list[int]:
        """The shards still to write, in order."""
        return [shard for shard in range(math.ceil(self.images / SHARD)) if str(shard) not in self.complete]

    def rows(self, shard: int) -> range:
        """The images of a shard."""
        return range(shard * SHARD, min((shard + 1) * SHARD, self.images))

    def write(self, shard: int, features: np.ndarray) -> None:
        """Write one whole shard: features (images of the shard x C x H x W), finite in float16."""
        rows = self.rows(shard)
        self.array[rows.start : rows.stop] = features
        self.complete[str(shard)] = _shard_file(self.folder, shard).stat().st_size
        write_json(self.log, self.complete)

    def finish(self, path: Path, attributes: dict[str, Any]) -> None:
        """Record the shards and the attributes, and move the store to `path`."""
        sizes = [self.complete[str(shard)] for shard in range(len(self.complete))]
        group = {"schema": SCHEMA, "shard_bytes": sizes} | attributes
        write_json(self.folder / "zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": group})
        self.log.unlink()
        with replacing(path) as beside:
            self.folder.rename(beside)


def _array(folder: Path, images: int, shape: tuple[int, int, int]) -> zarr.Array:
    config = {"write_empty_chunks": True}  # else a shard of zeros would be no file
    if (folder / ARRAY / "zarr.json").exists():
        return zarr.open_array(folder / ARRAY, mode="r+", zarr_format=3).with_config(config)
    return zarr.create_array(
        folder / ARRAY,
        shape=(images, *shape),
        chunks=(1, *shape),
        shards=(SHARD, *shape),
        dtype="float16",
        compressors=[BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle", typesize=2), Crc32cCodec()],
        zarr_format=3,
        config=config,
    )


def _shard_file(folder: Path, shard: int) -> Path:
    return folder / ARRAY / "c" / str(shard) / "0" / "0" / "0"


class FeatureStore:
    """Read a store: features by image key.

    `expected` names attributes that must hold, for example {"layer": "layer3"}. Raises
    InputError naming the attribute that differs, or the shard that is damaged.
    """

    def __init__(self, path: str | Path, expected: dict[str, Any]):
        self.path = Path(path)
        self.attributes = _attributes(self.path)
        self._check(expected)
        self.row = {key: row for row, key in enumerate(self.attributes["keys"])}
        self.array = tensorstore.open(_spec(self.path / ARRAY), read=True).result()

    def _check(self, expected: dict[str, Any]) -> None:
        for name, value in expected.items():
            if (found := self.attributes.get(name)) != value:
                raise InputError(
                    f"{self.path}: its {name} is {found!r}, params.yaml wants {value!r}; {REMEDY}"
                )
        for shard, size in enumerate(self.attributes["shard_bytes"]):
            file = _shard_file(self.path, shard)
            if not file.exists():
                raise InputError(
                    f"{self.path}: shard {shard} ({file.relative_to(self.path)}) is missing; {REMEDY}"
                )
            if (found := file.stat().st_size) != size:
                raise InputError(f"{self.path}: shard {shard} has {found} bytes, not {size}; {REMEDY}")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image's feature grid."""
        return tuple(self.array.shape[1:])

    def read(self, keys: Sequence[str]) -> np.ndarray:
        """Features of the images, float16 (images x C x H x W), in the order of `keys`."""
        try:
            rows = [self.row[key] for key in keys]
        except KeyError as error:
            raise InputError(f"{self.path} has no image {error}; {REMEDY}") from None
        # one read of distinct images: a scene's before image stands in both of its pairs
        distinct, places = np.unique(rows, return_inverse=True)
        try:
            return self.array[distinct].read().result()[places]
        except ValueError as error:
            raise InputError(f"{self.path} is damaged ({_first_clause(error)}); {REMEDY}") from None


def _attributes(path: Path) -> dict[str, Any]:
    try:
        attributes = json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"]
    except (OSError, ValueError, KeyError):
        raise InputError(f"{path} is not a feature store; {REMEDY}") from None
    if attributes.get("schema") != SCHEMA:
        raise InputError(f"{path}: its schema is {attributes.get('schema')!r}, not {SCHEMA}; {REMEDY}")
    return attributes


def _spec(folder: Path) -> dict[str, Any]:
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(folder.absolute())}}


def _first_clause(error: Exception) -> str:
    return " ".join(str(error).split("[")[0].split())
