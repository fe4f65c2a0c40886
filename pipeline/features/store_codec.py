"""Format of a feature store; the only module that knows chunks, shards and codecs.

A store is a Zarr v3 group. Its array `features` is (images, C, H, W), float16, or uint8 for pixels. A chunk
is one image, a shard has 256 images, and chunks and shard indices have a crc32c. Most Zarr readers silently
read a MISSING shard as zeros, so the attributes record each shard's size, and opening the store checks the
sizes. A chunk's crc32c does not identify its image, so the attributes also have a checksum per image over
its features, its key and everything that made them. The first read of an image checks it.

The codec is LZ4 without shuffle. By measurement (benchmarks/README.md, "The store's codec: python -m
benchmarks codecs"), random batches are as fast as without a codec; dense features keep their size, and
sparse features (after a ReLU) halve it. Bitshuffle also saves a quarter of dense features, and Zstandard
more, but reading takes 1.4 and 3 times as long.

TensorStore reads and writes the array; random batches are 50 times faster than by zarr-python, which defines
it.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from pipeline.features.object_storage import Location

SCHEMA = 2
SHARD = 256
ARRAY = "features"
OF_FILES = "npy:"  # prefix of the weights_id of imported features, a hash of all of them
EXPONENT = np.uint16(0x7C00)  # exponent bits of a float16, all ones for NaN and infinity
LISTS = ("schema", "keys", "sha256", "shard_bytes", "sums")  # attributes of single images and shards
CODECS = (BloscCodec(cname="lz4", clevel=5, shuffle="noshuffle", typesize=2), Crc32cCodec())
# write shards of zeros too; no fsync, because a shard lost in a power cut is noticed by its size
WRITING = {"store_data_equal_to_fill_value": True, "context": {"file_io_sync": False}}


def define(folder: Path, images: int, shape: tuple[int, int, int], dtype: str) -> None:
    """Make an empty array (images, C, H, W)."""
    zarr.create_array(
        folder,
        shape=(images, *shape),
        chunks=(1, *shape),
        shards=(SHARD, *shape),
        dtype=dtype,
        compressors=CODECS,
        zarr_format=3,
    )


def shard_file(shard: int | str) -> str:
    """Return a shard's file below the array's folder; the shard may be `*`."""
    return f"c/{shard}/0/0/0"


def array_spec(location: Location) -> dict[str, Any]:
    """Return TensorStore's spec of the array."""
    return {"driver": "zarr3", "kvstore": location.spec(f"{ARRAY}/")}


def made(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are common to all images: how their features were made."""
    return {name: value for name, value in attributes.items() if name not in LISTS}


def sum_of(features: np.ndarray) -> int:
    """Return the checksum of one image's features (C, H, W)."""
    return crc32(np.ascontiguousarray(features).data)


def finite(features: np.ndarray) -> bool:
    """Return whether an image's features, in a store's type, are finite; 3 times as fast as np.isfinite."""
    if features.dtype == np.uint8:
        return True
    exponents = np.ascontiguousarray(features).view(np.uint16) & EXPONENT
    return not (exponents == EXPONENT).any()


def bound(sums: Iterable[int], rows: Iterable[int], attributes: Mapping[str, Any]) -> list[int]:
    """Return the checksums of rows' features, extended by the rows' keys and attributes."""
    common = json.dumps(made(attributes), sort_keys=True).encode()
    keys = attributes["keys"]
    images = attributes.get("sha256", keys)
    return [
        crc32(common, crc32(f"{keys[row]}\0{images[row]}\0".encode(), found))
        for found, row in zip(sums, rows, strict=True)
    ]
