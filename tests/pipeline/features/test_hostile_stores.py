"""Feature stores whose metadata is damaged or of another program. Damaged shards are in test_store.py."""

import json

import pytest

from pipeline.features.store import FeatureStore
from tests.hostile import refused
from tests.pipeline.features.test_store import ATTRIBUTES, make

GROUP, ARRAY = "zarr.json", "features/zarr.json"


def changed(file, *keys, to):
    """Return a function that sets a value of the metadata."""

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


def text(content, file=GROUP):
    return lambda place: (place / file).write_text(content)


STORES = {
    "no text": (text(""), "is not a feature store"),
    "lists without an end": (text("[" * 100), "is not a feature store"),
    "a schema of 5000 digits": (text('{"attributes": {"schema": ' + "9" * 5000 + "}}"), "is not a feature"),
    "attributes of a list": (changed(GROUP, "attributes", to=[]), "attributes: Input should be"),
    "no keys": (said("keys", None), "attributes.keys: Input should be"),
    "keys of numbers": (said("keys", [1, 2]), "attributes.keys.0: Input should be"),
    "one key for all images": (said("keys", ["a"] * 10), "it has 10 images, but 1 different keys"),
    "a shard of a word": (said("shard_bytes", "x"), "attributes.shard_bytes: Input should be"),
    "a shard of minus one byte": (said("shard_bytes", [-1]), "attributes.shard_bytes.0: Input should be"),
    "a stride of 10000 letters": (said("stride", "x" * 10_000), "its stride is 'xxx"),
    "a terminal's escapes as stride": (said("stride", "\x1b[2J"), "its stride is '\\x1b[2J'"),
    "an array of 64 bits": (changed(ARRAY, "data_type", to="float64"), "its array is float64"),
    "an array of nothing": (text("", ARRAY), "is damaged"),
}


@pytest.mark.parametrize(("change", "says"), STORES.values(), ids=STORES)
def test_a_store_is_refused_for(tmp_path, change, says):
    make(tmp_path / "s.zarr")
    change(tmp_path / "s.zarr")
    found = refused(lambda: FeatureStore(tmp_path / "s.zarr", ATTRIBUTES))
    assert says in found
    assert str(tmp_path / "s.zarr") in found
