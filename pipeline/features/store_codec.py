"""The format of a feature store: the only module that knows chunks, shards and codecs.

A Zarr v3 group whose array `features` holds images x C x H x W in float16, or pixels in uint8: one chunk an
image, 256 images a shard, crc32c on every chunk and on the shard's index. A MISSING shard
reads as zeros without a word in most Zarr readers, so the group's attributes record each
shard's size, and opening the store checks them. The chunks' own sums don't say which image a chunk is of, so
the attributes also hold a sum for each image over its features, its key and everything that made them. The
first read of an image checks its sum.

The codec is LZ4 without a shuffle, by measurement (benchmarks/README.md, "The store's codec: python -m
benchmarks codecs"): random batches come as fast as without a codec, dense features take as many bytes, and
sparse ones, as trained weights give after a ReLU, half. Bitshuffle saves a quarter of dense ones too,
and Zstandard more, but reading then takes 1.4 and 3 times as long.

TensorStore reads and writes: random batches came 50 times faster than through zarr-python, which
defines the array and opens it, as any Zarr v3 reader does.
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
OF_FILES = "npy:"  # how the weights_id of imported features begins: a hash of all of them
EXPONENT = np.uint16(0x7C00)  # of a float16, all ones where it is NaN or infinite
LISTS = ("schema", "keys", "sha256", "shard_bytes", "sums")  # attributes of single images and shards
CODECS = (BloscCodec(cname="lz4", clevel=5, shuffle="noshuffle", typesize=2), Crc32cCodec())
# a shard of zeros is a file too; what was lost in a power cut is noticed by its size
WRITING = {"store_data_equal_to_fill_value": True, "context": {"file_io_sync": False}}


def define(folder: Path, images: int, shape: tuple[int, int, int], dtype: str) -> None:
    """An empty array of images x C x H x W."""
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
    """A shard's file below the array's folder; `*` stands for all."""
    return f"c/{shard}/0/0/0"


def array_spec(location: Location) -> dict[str, Any]:
    """The array as TensorStore opens it."""
    return {"driver": "zarr3", "kvstore": location.spec(f"{ARRAY}/")}


def made(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that hold for all images: what made their features."""
    return {name: value for name, value in attributes.items() if name not in LISTS}


def sum_of(features: np.ndarray) -> int:
    """Return the checksum of one image's features (C x H x W)."""
    return crc32(np.ascontiguousarray(features).data)


def finite(features: np.ndarray) -> bool:
    """Whether an image's features, of a store's type, are finite: three times as fast as np.isfinite."""
    if features.dtype == np.uint8:
        return True
    exponents = np.ascontiguousarray(features).view(np.uint16) & EXPONENT
    return not (exponents == EXPONENT).any()


def bound(sums: Iterable[int], rows: Iterable[int], attributes: Mapping[str, Any]) -> list[int]:
    """Bind the checksums of some rows' features to what the attributes say of these rows."""
    common = json.dumps(made(attributes), sort_keys=True).encode()
    keys = attributes["keys"]
    images = attributes.get("sha256", keys)
    return [
        crc32(common, crc32(f"{keys[row]}\0{images[row]}\0".encode(), found))
        for found, row in zip(sums, rows, strict=True)
    ]
