"""A released .npy file is checked and rounded within the stated error. No code in it runs."""

import io
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pipeline.features.npy_import import load
from pipeline.io.errors import InputError
from tests.grids import SHAPE, grid, with_value


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
    "text": (lambda path: path.write_bytes(b"<html>" * 50), "magic string"),
    "pickle": (lambda path: path.write_bytes(pickle.dumps(Evil())), "magic string"),
    "objects": (
        lambda path: np.save(path, np.array([Evil()])),
        "allow_pickle=False",
    ),
    "archive": (lambda path: archive(path, grid(0)), "magic string"),
    "shape": (lambda path: np.save(path, grid(0).reshape(2, 256, 2)), "it holds 2 x 256 x 2 float32"),
    "double": (lambda path: np.save(path, grid(0).astype(float)), "256 x 2 x 2 float64, not"),
    "big-endian": (lambda path: np.save(path, grid(0).astype(">f4")), "256 x 2 x 2 >f4, not"),
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


@settings(max_examples=100)
@given(data=st.data())
def test_a_damaged_header_is_refused_or_harmless(tmp_path_factory, data):
    damaged = bytearray(grid_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, 127))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("n") / "a.npy"
    path.write_bytes(damaged)
    said = f"{path} cannot be imported ("
    try:
        assert load(path, SHAPE).shape == SHAPE
    except InputError as error:
        said = str(error)
    assert said.startswith(f"{path} cannot be imported (")
