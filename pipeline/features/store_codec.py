"""The format of a feature store. Only this module defines chunks, shards and codecs.

A store is a Zarr v3 group. Its array `features` is (images, C, H, W) in float16, or in uint8 for
pixels: C channels on a grid of H x W cells. A chunk is one image, and a shard has 256 images. Each
chunk and each index of a shard is stored with its CRC-32C checksum. Most Zarr readers return zeros if a
shard is missing, so the attributes record the size of each shard. The checksum of a chunk does not show
which image the chunk belongs to. Therefore the attributes also record a checksum per image. The
checksum of an image covers its features, its key, and everything that the features depend on.

The codec is LZ4 without shuffle (measured in benchmarks/README.md, "The store's codec"). Random batches
are read as fast as without a codec. Dense features keep their size, and sparse features (after a ReLU)
shrink to half of it.

TensorStore reads and writes the array: random batches are 50 times as fast as with zarr-python.
zarr-python only defines the array.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from pipeline.features.object_storage import Location

SCHEMA = 2
SHARD = 256
ARRAY = "features"
DIMENSIONS = ("image", "channel", "row", "column")  # without names, xarray does not open the array
OF_FILES = "npy:"  # prefix of the weights_id of imported features; a hash of all features follows
# all other attributes say how the features were made
LISTS = ("schema", "keys", "sha256", "shard_bytes", "sums")
# shards of zeros are written too; there is no fsync, because the sizes show if a power cut lost a shard
WRITING = {"store_data_equal_to_fill_value": True, "context": {"file_io_sync": False}}


def define(folder: Path, images: int, shape: tuple[int, int, int], dtype: str) -> None:
    """Make an empty Zarr array (images, C, H, W) in `folder`. `shape` is (C, H, W)."""
    import zarr  # here, because reading a store does not need it
    from zarr.codecs import BloscCodec, Crc32cCodec

    zarr.create_array(
        folder,
        shape=(images, *shape),
        chunks=(1, *shape),
        shards=(SHARD, *shape),
        dtype=dtype,
        dimension_names=DIMENSIONS,
        compressors=(BloscCodec(cname="lz4", clevel=5, shuffle="noshuffle", typesize=2), Crc32cCodec()),
        zarr_format=3,
    )


def shard_file(shard: int) -> str:
    return f"{ARRAY}/c/{shard}/0/0/0"


def array_spec(location: Location) -> dict[str, Any]:
    return {"driver": "zarr3", "kvstore": location.spec(f"{ARRAY}/")}


def shared_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name not in LISTS}


def features_checksum(features: np.ndarray) -> int:
    return crc32(np.ascontiguousarray(features).data)


def image_checksums(sums: Iterable[int], rows: Iterable[int], attributes: Mapping[str, Any]) -> list[int]:
    """Return checksums of `rows` that cover features (`sums`), key, file hash and shared attributes."""
    shared = json.dumps(shared_attributes(attributes), sort_keys=True).encode()
    keys = attributes["keys"]
    images = attributes.get("sha256", keys)
    return [
        crc32(shared, crc32(f"{keys[row]}\0{images[row]}\0".encode(), checksum))
        for checksum, row in zip(sums, rows, strict=True)
    ]
