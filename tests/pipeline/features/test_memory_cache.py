"""Features held in memory equal the store's; a store that does not fit is refused before it is read."""

import numpy as np
import pytest
import torch

from pipeline.compute import memory
from pipeline.compute.process_group import Ranks
from pipeline.features import memory_cache, store_codec
from pipeline.features.memory_cache import Resident, feature_source, images
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from tests.pipeline.features.test_store import SHAPE, make

CPU = torch.device("cpu")
KEYS = [f"{row}.png" for row in (7, 2, 7, 9, 0)]


@pytest.fixture
def opened(tmp_path, monkeypatch):
    monkeypatch.setattr(store_codec, "SHARD", 4)
    monkeypatch.setattr(memory_cache, "BLOCK", 3)
    make(tmp_path / "s.zarr")
    return FeatureStore(tmp_path / "s.zarr", {})


@pytest.mark.parametrize("cache", ["none", "ram", "device"])
def test_every_cache_gives_the_stores_numbers(opened, cache):
    source = feature_source(opened, KEYS, cache, CPU)
    assert isinstance(source, FeatureStore if cache == "none" else Resident)
    assert source.shape == SHAPE
    expected = opened.read(KEYS)
    found = images(source, KEYS)
    assert (found.dtype, found.device) == (torch.float16, CPU)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_without_room_nothing_is_read(opened, monkeypatch):
    monkeypatch.setattr(memory, "free", lambda device: 4 * 24)
    Resident(opened, KEYS[:2], CPU)  # 2 images x 24 bytes
    monkeypatch.setattr(FeatureStore, "read", None)
    with pytest.raises(InputError, match=r"of 4 images take 0\.0 GB, .*90%.*; set train\.cache: none"):
        Resident(opened, KEYS, CPU)


def test_every_process_holds_all(opened, monkeypatch):
    monkeypatch.setattr(memory, "free", lambda device: 6 * 24)
    monkeypatch.setattr(FeatureStore, "read", None)
    with pytest.raises(InputError, match=r"of 2 images take 0\.0 GB in 3 processes, and of the cpu memory"):
        feature_source(opened, KEYS[:2], "ram", torch.device("cuda", 0), Ranks(0, 3))
    memory_cache._check_room(2, opened, torch.device("cuda", 0), 8)  # each has a GPU of its own
