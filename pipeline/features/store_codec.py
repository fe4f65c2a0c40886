"""The format of a feature store: the only module that knows chunks, shards and codecs.

A Zarr v3 group whose array `features` holds images x C x H x W in float16, or pixels in uint8: one chunk an
image, 256 images a shard, crc32c on every chunk and on the shard's index. A MISSING shard
reads as zeros without a word in most Zarr readers, so the group's attributes record each
shard's size, and opening the store checks them.

The codec is LZ4 without a shuffle, by measurement (benchmarks/README.md, "The store's codec: python -m
benchmarks codecs"): random batches come as fast as without a codec, dense features take as many bytes, and
sparse ones, as trained weights give after a ReLU, half. Bitshuffle saves a quarter of dense ones too,
and Zstandard more, but reading then takes 1.4 and 3 times as long.

TensorStore reads and writes: random batches came 50 times faster than through zarr-python, which
defines the array and opens it, as any Zarr v3 reader does.
"""

from pathlib import Path
from typing import Any

import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from pipeline.features.object_storage import Location

SCHEMA = 1
SHARD = 256
ARRAY = "features"
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
