"""The feature store: round trips, resumption, and damage that a reader must notice."""

import json

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.features import store, store_codec
from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer
from pipeline.io.errors import InputError
from tests.folders import contents

SHAPE = (3, 2, 2)
ATTRIBUTES = {"stride": 16, "resize": "pil_bicubic"}


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(store_codec, "SHARD", 4)


def grids(images, seed=0):
    return np.random.default_rng(seed).standard_normal((images, *SHAPE)).astype(np.float16)


def make(path, images=10, seed=0):
    features = grids(images, seed)
    writer = Writer(path.with_suffix(".scratch"), images, SHAPE)
    for shard in writer.missing:
        rows = writer.rows(shard)
        writer.write(shard, features[rows.start : rows.stop])
    keys = [f"{row}.png" for row in range(images)]
    writer.finish(path, ATTRIBUTES | {"keys": keys, "sha256": keys})
    return features


@pytest.mark.parametrize(("free", "mapped"), [(10**12, True), (100, False)])
def test_only_a_store_that_stays_in_memory_is_mapped(tmp_path, monkeypatch, free, mapped):
    features = make(tmp_path / "s.zarr")
    monkeypatch.setattr(store.memory, "free", lambda: free)
    opened = FeatureStore(tmp_path / "s.zarr", ATTRIBUTES)
    assert ("file_io_mode" in opened._reading()["context"]) == mapped
    np.testing.assert_array_equal(opened.read(["7.png", "2.png"]), features[[7, 2]])
    with pytest.raises(InputError, match=r"no image 'other\.png'"):
        opened.read(["other.png"])


def test_plain_zarr_reads_the_same(tmp_path):
    features = make(tmp_path / "s.zarr")
    array = zarr.open_array(tmp_path / "s.zarr", path="features", mode="r")
    assert array.chunks == (1, *SHAPE)
    assert array.shards == (4, *SHAPE)
    opened = FeatureStore(tmp_path / "s.zarr", ATTRIBUTES)
    for row in range(10):
        np.testing.assert_array_equal(array[row], features[row])
        np.testing.assert_array_equal(array[row], opened.read([f"{row}.png"])[0])
    assert zarr.open_group(tmp_path / "s.zarr", mode="r").attrs["stride"] == 16


def test_zarr_lists_a_store_without_a_warning(tmp_path):
    make(tmp_path / "s.zarr")
    make(tmp_path / "s.zarr")  # its own store is replaced
    assert [name for name, _ in zarr.open_group(tmp_path / "s.zarr", mode="r").members()] == ["features"]
    assert {path.split("/")[0] for path in contents(tmp_path / "s.zarr")} == {"zarr.json", "features"}


def test_the_dimensions_have_names(tmp_path):
    make(tmp_path / "s.zarr")
    array = zarr.open_array(tmp_path / "s.zarr", path="features", mode="r")
    assert array.metadata.dimension_names == ("image", "channel", "row", "column")


def test_a_store_of_an_earlier_version_has_no_names_and_opens(tmp_path):
    features = make(tmp_path / "s.zarr")
    metadata = tmp_path / "s.zarr/features/zarr.json"
    record = json.loads(metadata.read_text())
    del record["dimension_names"]
    metadata.write_text(json.dumps(record))
    np.testing.assert_array_equal(FeatureStore(tmp_path / "s.zarr", {}).read(["3.png"])[0], features[3])


def test_xarray_opens_a_store(tmp_path):
    xarray = pytest.importorskip("xarray", reason="xarray is not in this environment")
    features = make(tmp_path / "s.zarr")
    with xarray.open_zarr(tmp_path / "s.zarr", chunks=None, consolidated=False) as opened:
        assert dict(opened.features.sizes) == {"image": 10, "channel": 3, "row": 2, "column": 2}
        np.testing.assert_array_equal(opened.features[[7, 2]].values, features[[7, 2]])
        assert opened.attrs["stride"] == 16


@settings(max_examples=15)
@given(images=st.integers(1, 13), data=st.data())
def test_round_trip(tmp_path_factory, images, data):
    path = tmp_path_factory.mktemp("round") / "s.zarr"
    features = make(path, images, seed=images)
    rows = data.draw(st.lists(st.integers(0, images - 1), min_size=1, max_size=20))
    found = FeatureStore(path, {}).read([f"{row}.png" for row in rows])
    np.testing.assert_array_equal(found, features[rows])


def test_an_interrupted_writer_goes_on_with_the_first_missing_shard(tmp_path):
    features = make(tmp_path / "whole.zarr")
    folder = tmp_path / "scratch"
    first = Writer(folder, 10, SHAPE)
    first.write(0, features[:4])
    # a shard that was written but not recorded, as after a kill, is written again
    first.array[4:8].write(0).result()
    again = Writer(folder, 10, SHAPE)
    assert again.missing == [1, 2]
    again.write(1, features[4:8])
    again.write(2, features[8:])
    keys = [f"{row}.png" for row in range(10)]
    again.finish(tmp_path / "s.zarr", ATTRIBUTES | {"keys": keys, "sha256": keys})
    assert contents(tmp_path / "s.zarr") == contents(tmp_path / "whole.zarr")


def test_another_stride_is_refused(tmp_path):
    make(tmp_path / "s.zarr")
    with pytest.raises(InputError, match=r"s\.zarr: its stride is 16, params.yaml wants 32"):
        FeatureStore(tmp_path / "s.zarr", {"stride": 32})


def other_size(change):
    def changed(path):
        shard = path / "features/c/2/0/0/0"
        shard.write_bytes(change(shard.read_bytes()))

    return changed


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: (path / "features/c/1/0/0/0").unlink(), "c/1/0/0/0 is missing"),
        (other_size(lambda data: data[:50]), "c/2/0/0/0 is .*shorter than its"),
        (other_size(lambda data: data + b"x"), "c/2/0/0/0 is longer than its"),
    ],
)
def test_a_shard_that_is_missing_or_of_another_size_is_refused(tmp_path, damage, said):
    make(tmp_path / "s.zarr")
    damage(tmp_path / "s.zarr")
    with pytest.raises(InputError, match=said):
        FeatureStore(tmp_path / "s.zarr", {})


@pytest.mark.parametrize("place", [5, 30, 41, -5])
def test_a_flipped_bit_is_noticed(tmp_path, place):
    """The bit is in a chunk's head, its numbers or its sum, or in the shard's index."""
    make(tmp_path / "s.zarr")
    shard = tmp_path / "s.zarr/features/c/0/0/0/0"
    data = bytearray(shard.read_bytes())
    data[place] ^= 1
    shard.write_bytes(data)
    opened = FeatureStore(tmp_path / "s.zarr", {})
    with pytest.raises(InputError, match=r"s\.zarr is damaged"):
        opened.read([f"{row}.png" for row in range(4)])


def rewritten(path, change):
    """Change the attributes of the group."""
    record = json.loads((path / "zarr.json").read_text())
    change(record["attributes"])
    (path / "zarr.json").write_text(json.dumps(record))


def swap_shards(path):
    one, two = (path / f"features/c/{shard}/0/0/0" for shard in (0, 1))
    data = one.read_bytes(), two.read_bytes()
    two.write_bytes(data[0])
    one.write_bytes(data[1])
    sizes = [len(each) for each in data]
    rewritten(path, lambda own: own["shard_bytes"].__setitem__(slice(0, 2), sizes[::-1]))


def overwrite(path, value):
    """Write other features by Zarr's own means: each chunk has the right checksum."""
    zarr.open_array(path, path="features", mode="r+")[2] = value


EXCHANGED = {
    "keys in another order": lambda path: rewritten(path, lambda own: own["keys"].reverse()),
    "two keys exchanged": lambda path: rewritten(
        path, lambda own: own["keys"].__setitem__(slice(0, 2), own["keys"][1::-1])
    ),
    "the images' hashes in another order": lambda path: rewritten(path, lambda own: own["sha256"].reverse()),
    "sums in another order": lambda path: rewritten(path, lambda own: own["sums"].reverse()),
    "two shards": swap_shards,
    "another stride": lambda path: rewritten(path, lambda own: own.__setitem__("stride", 32)),
    "other weights": lambda path: rewritten(path, lambda own: own.__setitem__("weights_id", "sha256:1")),
    "other features of one image": lambda path: overwrite(path, 0.5),
    "features that are no number": lambda path: overwrite(path, np.nan),
}


@pytest.mark.parametrize("change", EXCHANGED.values(), ids=EXCHANGED)
def test_exchanged_features_are_noticed_at_the_first_read(tmp_path, change):
    make(tmp_path / "s.zarr")
    change(tmp_path / "s.zarr")
    with pytest.raises(InputError, match=r"s\.zarr is damaged: the image '\d\.png'"):
        FeatureStore(tmp_path / "s.zarr", {}).read([f"{row}.png" for row in range(10)])


def test_a_store_of_the_schema_before_is_refused(tmp_path):
    make(tmp_path / "s.zarr")
    rewritten(tmp_path / "s.zarr", lambda own: (own.pop("sums"), own.__setitem__("schema", 1)))
    with pytest.raises(InputError, match=r"s\.zarr.*run `dvc repro extract`"):
        FeatureStore(tmp_path / "s.zarr", {})
