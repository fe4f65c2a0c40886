"""Released .npy features: files are found and checked, and no code in them runs."""

import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pipeline.features import npy_import, store_codec
from pipeline.features.npy_import import fingerprint, load, locate
from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer
from pipeline.io.errors import InputError
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
    with pytest.raises(InputError, match=r"the first 20 of 25(?s:.)*images/0\.png\.npy is missing"):
        locate(tmp_path, names, SHAPE)


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


def test_an_import_has_the_rounded_values(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(store_codec, "SHARD", 5)
    take_over(folder, tmp_path / "a", tmp_path / "s.zarr")
    opened = FeatureStore(tmp_path / "s.zarr", {})
    for row, name in enumerate(NAMES):
        np.testing.assert_array_equal(opened.read([name])[0], grid(row).astype(np.float16))


def test_other_features_have_another_id_and_other_work_another_fingerprint(folder, tmp_path):
    files = locate(folder, NAMES, SHAPE)
    first, before = take_over(folder, tmp_path / "a", tmp_path / "a.zarr"), fingerprint(files)
    assert first.startswith("npy:")
    assert take_over(folder, tmp_path / "b", tmp_path / "b.zarr") == first
    assert fingerprint(files) == before
    with_value(files[2], 7)
    os.utime(files[2], (1, 1))
    assert take_over(folder, tmp_path / "c", tmp_path / "c.zarr") != first
    assert fingerprint(files) != before


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("executed"),))


def tail(path, data):
    np.save(path, grid(0))
    with path.open("ab") as file:
        file.write(data)


def archive(path, array):
    np.savez(path.with_suffix(".npz"), array)
    path.with_suffix(".npz").rename(path)


DAMAGE = {
    "missing": (lambda path: None, "No such file"),
    "pickle": (lambda path: path.write_bytes(pickle.dumps(Evil())), "magic string"),
    "objects": (
        lambda path: np.save(path, np.array([Evil()])),
        "allow_pickle=False",
    ),
    "archive": (lambda path: archive(path, grid(0)), "magic string"),
    "shape": (lambda path: np.save(path, grid(0).reshape(2, 256, 2)), "it holds 2 x 256 x 2 float32"),
    "double": (lambda path: np.save(path, grid(0).astype(float)), "256 x 2 x 2 float64, not"),
    "truncated": (lambda path: path.write_bytes(grid_bytes()[:-9]), "expected 4096 bytes got 4087"),
    "too long": (lambda path: tail(path, b"\0"), "bytes follow its array"),
    "NaN": (lambda path: with_value(path, np.nan), "not finite, or beyond 65504"),
    "beyond float16": (lambda path: with_value(path, 65505), "not finite, or beyond 65504"),
}


def grid_bytes():
    buffer = io.BytesIO()
    np.save(buffer, grid(0))
    return buffer.getvalue()


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_named_and_nothing_is_executed(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, said = DAMAGE[kind]
    make(tmp_path / "a.npy")
    with pytest.raises(InputError) as caught:
        load(tmp_path / "a.npy", SHAPE)
    assert str(caught.value).startswith(f"{tmp_path / 'a.npy'} cannot be imported (")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "executed").exists()


@settings(max_examples=80)
@given(values=arrays(np.float32, (8,), elements=st.floats(-65504, 65504, width=32)))
@example(values=np.array([65504, -65504, 2**-14, 2**-24, 1 + 2**-11, 0, 1, 3], np.float32))
def test_the_rounding_error_is_the_stated_one(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("n") / "a.npy"
    np.save(path, values.reshape(8, 1, 1))
    found = load(path, (8, 1, 1)).astype(np.float64).ravel()
    exact = values.astype(np.float64)
    error, size = np.abs(found - exact), np.abs(exact)
    assert (error <= np.where(size >= 2**-14, size * 2**-11, 2**-25)).all()
