"""Feature stores from strangers: what was tried (the tests' names), and what happened.

Damaged stores, of missing or changed shards, are in test_store.py.
"""

import json

import pytest

from pipeline.features import store
from pipeline.features.store import FeatureStore
from tests.hostile import endless, hole, pipe, refused
from tests.pipeline.features.test_store import ATTRIBUTES, make

GROUP, ARRAY, SHARD = "zarr.json", "features/zarr.json", "features/c/0/0/0/0"


def changed(file, *keys, to):
    """The metadata with another value under that key."""

    def change(place):
        record = json.loads((place / file).read_text())
        inner = record
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = to
        (place / file).write_text(json.dumps(record))

    return change


def said(key, to):
    return changed(GROUP, "attributes", key, to=to)


def text(content):
    return lambda place: (place / GROUP).write_text(content)


def instead(file, make_it, *more):
    return lambda place: make_it(place / file, *more)


def shaped(*shape, chunk=None):
    """The array with another shape, its chunks of one image, 256 of them a shard."""

    def change(place):
        own = list(shape[1:] if chunk is None else chunk)
        record = json.loads((place / ARRAY).read_text())
        record["shape"] = list(shape)
        record["chunk_grid"]["configuration"]["chunk_shape"] = [256, *own]
        record["codecs"][0]["configuration"]["chunk_shape"] = [1, *own]
        (place / ARRAY).write_text(json.dumps(record))

    return change


STORES = {
    "attributes that are none": (changed(GROUP, "attributes", to=None), "attributes: Input should be"),
    "attributes of a list": (changed(GROUP, "attributes", to=[]), "attributes: Input should be"),
    "100000 lists within each other": (text("[" * 100_000), "is not a feature store"),
    "20000 objects within each other": (text('{"attributes":' * 20_000), "is not a feature store"),
    "a schema of 5000 digits": (text('{"attributes": {"schema": ' + "9" * 5000 + "}}"), "is not a feature"),
    "no text": (text(""), "is not a feature store"),
    "metadata of 300 MB": (instead(GROUP, hole, 300_000_000), "has more than 268,435,456 bytes"),
    "a pipe as metadata": (instead(GROUP, pipe), "is a pipe or a device"),
    "a device as metadata": (instead(GROUP, endless), "is a pipe or a device"),
    "keys that are none": (said("keys", None), "attributes.keys: Input should be"),
    "keys of numbers": (said("keys", [1, 2]), "attributes.keys.0: Input should be"),
    "a key too many": (said("keys", ["a"] * 11), "it has 10 images in 1 shards of 256, and 1 different keys"),
    "one key for all images": (said("keys", ["a"] * 10), "and 1 different keys"),
    "a shard of a word": (said("shard_bytes", "x"), "attributes.shard_bytes: Input should be"),
    "a shard of no byte": (said("shard_bytes", [0]), "attributes.shard_bytes.0: Input should be"),
    "a shard of minus one byte": (said("shard_bytes", [-1]), "attributes.shard_bytes.0: Input should be"),
    "a shard of 2 ** 70 bytes": (said("shard_bytes", [2**70]), "attributes.shard_bytes.0: Input should be"),
    "a shard of a fraction of bytes": (said("shard_bytes", [0.5]), "attributes.shard_bytes.0: Input"),
    "no shard": (said("shard_bytes", []), "it has 10 images in 0 shards"),
    "a shard without content to its end": (
        instead(SHARD, hole, 1 << 40),
        "features/c/0/0/0/0 is longer than its",
    ),
    "a pipe as a shard": (instead(SHARD, pipe), "is a pipe or a device"),
    "a stride of 10000 letters": (said("stride", "x" * 10_000), "its stride is 'xxx"),
    "a terminal's escapes as stride": (said("stride", "\x1b[2J"), "its stride is '\\x1b[2J'"),
    "a trillion images": (shaped(10**12, 3, 2, 2), "it has 1000000000000 images"),
    "images of a trillion channels": (shaped(10, 10**12, 2, 2), "takes more than 67,108,864 bytes"),
    "images of 10000 x 10000 cells": (shaped(10, 3, 10_000, 10_000), "takes more than 67,108,864 bytes"),
    "images of no rows and columns": (shaped(10, 3), "is float16 of (10, 3)"),
    "chunks larger than an image": (
        shaped(10, 3, 2, 2, chunk=(3, 20_000, 20_000)),
        "its chunks are not of one image each",
    ),
    "an array of 64 bits": (changed(ARRAY, "data_type", to="float64"), "its array is float64"),
    "an array of 10000 letters": (changed(ARRAY, "data_type", to="x" * 10_000), "is damaged"),
    "an array of whole numbers": (changed(ARRAY, "data_type", to="int16"), "not float16 or uint8"),
    "an array of nothing": (instead(ARRAY, hole, 0), "is damaged"),
}


@pytest.mark.parametrize(("change", "says"), STORES.values(), ids=STORES)
def test_a_store_is_refused_for(tmp_path, monkeypatch, change, says):
    monkeypatch.setattr("pipeline.features.store_codec.SHARD", 256)
    make(tmp_path / "s.zarr")
    change(tmp_path / "s.zarr")
    found = refused(lambda: FeatureStore(tmp_path / "s.zarr", ATTRIBUTES))
    assert says in found
    assert str(tmp_path / "s.zarr") in found


def test_the_bounds_are_those_of_real_stores():
    """CLEVR-Change's ResNet-101, and a picture of a thousand pixels a side."""
    assert store.LARGEST_IMAGE > 2 * 1024 * 14 * 14 * 100
    assert store.LARGEST_IMAGE > 3 * 1024 * 1024
    assert store.LARGEST > 240_000 * 200
