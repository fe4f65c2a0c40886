"""Released .npy features are found before work starts. An import can be resumed, with the same bytes."""

import os
from pathlib import Path

import numpy as np
import pytest

from pipeline.features import npy_import, store_codec
from pipeline.features.npy_import import fingerprint, locate
from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer
from pipeline.io.errors import InputError
from tests.folders import contents
from tests.grids import SHAPE, grid, with_value

NAMES = [
    f"{folder}images/CLEVR_{kind}_{number:06d}.png"
    for number in range(4)
    for folder, kind in (("", "default"), ("sc_", "semantic"), ("nsc_", "nonsemantic"))
]


def released(name):
    return name.replace("images/", "features/") + ".npy"


@pytest.fixture
def folder(tmp_path):
    """Write features in the layout of the released programs."""
    root = tmp_path / "npy"
    for row, name in enumerate(NAMES):
        file = root / released(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, grid(row))
    return root


@pytest.mark.parametrize(
    "lies",
    [released, lambda n: n + ".npy", lambda n: Path(n).name + ".npy", lambda n: f"a/b/{Path(n).name}.npy"],
)
def test_files_are_found_as_released_by_key_or_by_base_name(tmp_path, lies):
    for name in NAMES:
        file = tmp_path / lies(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, grid(0))
    (tmp_path / "README.npy").write_bytes(b"")
    assert locate(tmp_path, NAMES, SHAPE) == [tmp_path / lies(name) for name in NAMES]


def test_all_missing_files_are_listed_before_work_starts(tmp_path):
    names = [f"images/{number}.png" for number in range(25)]
    with pytest.raises(InputError, match=r"25 problem\(s\) \(the first 20 of 25\)") as caught:
        locate(tmp_path, names, SHAPE)
    lines = str(caught.value).split("\n")
    assert len(lines) == 21
    assert lines[1] == "  images/0.png.npy is missing, and no sub-folder has 0.png.npy"


def test_ambiguous_files_are_refused(folder):
    for other in ("sc_images", "elsewhere"):
        (folder / other).mkdir()
        np.save(folder / other / f"{Path(NAMES[1]).name}.npy", grid(0))
    with pytest.raises(InputError, match=r"could be any of sc_features/CLEVR_.*, sc_images/CLEVR_"):
        locate(folder, NAMES, SHAPE)


def test_one_file_is_not_taken_for_two_images(tmp_path):
    np.save(tmp_path / "1.png.npy", grid(0))
    with pytest.raises(
        InputError, match=r"1\.png\.npy would be the features of bef/1\.png and of aft/1\.png"
    ):
        locate(tmp_path, ["bef/1.png", "aft/1.png"], SHAPE)


def test_files_of_another_size_are_listed_before_work_starts(folder):
    (folder / released(NAMES[5])).write_bytes(b"")
    np.save(folder / released(NAMES[7]), np.zeros((2 * SHAPE[0], 1, 1), np.float32))
    with pytest.raises(InputError, match=r"2 problem\(s\)") as caught:
        locate(folder, NAMES, SHAPE)
    for line, row in zip(str(caught.value).split("\n")[1:], (5, 7), strict=True):
        assert released(NAMES[row]) in line


def take_over(folder, scratch, out):
    files = locate(folder, NAMES, SHAPE)
    writer = Writer(scratch, len(NAMES), SHAPE)
    weights_id = npy_import.take_over(files, SHAPE, writer)
    writer.finish(out, {"keys": NAMES, "weights_id": weights_id})
    return weights_id


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(store_codec, "SHARD", 5)


def test_a_killed_import_resumes_to_the_same_bytes(folder, tmp_path, small_shards, monkeypatch):
    take_over(folder, tmp_path / "a", tmp_path / "whole.zarr")
    opened = FeatureStore(tmp_path / "whole.zarr", {})
    for row, name in enumerate(NAMES):
        np.testing.assert_array_equal(opened.read([name])[0], grid(row).astype(np.float16))
    write, read = Writer.write, npy_import.load

    def killed(self, shard, features):
        if shard >= 1:
            raise KeyboardInterrupt
        write(self, shard, features)

    monkeypatch.setattr(Writer, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        take_over(folder, tmp_path / "b", tmp_path / "s.zarr")
    assert not (tmp_path / "s.zarr").exists()
    monkeypatch.setattr(Writer, "write", write)
    again = []
    monkeypatch.setattr(
        npy_import, "load", lambda path, shape: (again.append(path.name), read(path, shape))[1]
    )
    take_over(folder, tmp_path / "b", tmp_path / "s.zarr")
    assert sorted(again) == sorted(f"{Path(name).name}.npy" for name in NAMES[5:])
    assert len(contents(tmp_path / "s.zarr")) == 5
    assert contents(tmp_path / "s.zarr") == contents(tmp_path / "whole.zarr")


def test_other_features_have_another_id_and_other_work_another_fingerprint(folder, tmp_path):
    files = locate(folder, NAMES, SHAPE)
    first, before = take_over(folder, tmp_path / "a", tmp_path / "a.zarr"), fingerprint(files)
    assert first.startswith("npy:")
    assert take_over(folder, tmp_path / "b", tmp_path / "b.zarr") == first
    assert fingerprint(files) == before
    status = files[2].stat()
    with_value(files[2], 7)
    os.utime(files[2], ns=(status.st_atime_ns, status.st_mtime_ns))  # as `rsync --times` and `cp -p` do
    assert take_over(folder, tmp_path / "c", tmp_path / "c.zarr") != first
    assert fingerprint(files) != before
