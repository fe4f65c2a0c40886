"""Features in memory: the store's own numbers, and refused before reading where there is no room."""

import numpy as np
import pytest
import torch

from pipeline.compute import memory
from pipeline.errors import InputError
from pipeline.features import memory_cache, store_codec
from pipeline.features.memory_cache import Resident, held, images, planned
from pipeline.features.store import FeatureStore
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
    source = held(opened, KEYS, cache, CPU)
    assert isinstance(source, FeatureStore if cache == "none" else Resident)
    assert source.shape == SHAPE
    expected = opened.read(KEYS)
    np.testing.assert_array_equal(source.read(KEYS), expected)
    found = images(source, KEYS)
    assert (found.dtype, found.device) == (torch.float16, CPU)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_files_are_read_once(opened, tmp_path):
    source = Resident(opened, KEYS, CPU)
    expected = opened.read(KEYS)
    for shard in (tmp_path / "s.zarr/features/c").rglob("0"):
        if shard.is_file():
            shard.unlink()
    np.testing.assert_array_equal(source.read(KEYS), expected)
    with pytest.raises(InputError, match="damaged"):
        opened.read(KEYS)


def test_an_image_that_was_not_read_is_named(opened):
    with pytest.raises(InputError, match=r"image '1\.png' of .*s\.zarr was not read into memory"):
        Resident(opened, KEYS, CPU).read(["7.png", "1.png"])


def test_without_room_nothing_is_read(opened, monkeypatch):
    monkeypatch.setattr(memory, "free", lambda device: 4 * 24)
    Resident(opened, KEYS[:2], CPU)  # 2 images x 24 bytes
    monkeypatch.setattr(FeatureStore, "read", None)
    with pytest.raises(InputError, match=r"of 4 images take 0\.0 GB, .*90%.*; set train\.cache: none"):
        Resident(opened, KEYS, CPU)


def test_every_process_holds_all_and_what_is_planned_is_what_is_refused(opened, monkeypatch):
    monkeypatch.setattr(memory, "free", lambda device: 6 * 24)
    size = 2 * 24  # 2 images
    assert planned(opened, KEYS[:2], "none", CPU) == 0
    assert planned(opened, [*KEYS[:2], KEYS[0]], "ram", CPU, processes=2) == size
    gpu = torch.device("cuda", 0)
    assert planned(opened, KEYS[:2], "device", gpu, processes=8) == size  # each has a GPU of its own
    assert planned(opened, KEYS[:2], "ram", gpu) == 0  # nothing of the GPU's memory
    with pytest.raises(InputError, match=r"of 2 images take 0\.0 GB in 3 processes, and of the cpu memory"):
        planned(opened, KEYS[:2], "ram", gpu, processes=3)


def test_where_free_memory_cannot_be_told_the_remedy_is_said(opened, monkeypatch):
    monkeypatch.setattr(memory, "free", lambda device: None)
    with pytest.raises(InputError, match=r"set train\.cache: none"):
        Resident(opened, KEYS, CPU)
