"""Untrusted files of attention maps (.npz) that take memory, are no file, or no archive."""

import io
import zipfile

import numpy as np
import pytest

from pipeline.decoding import attention_maps
from tests.hostile import hole, pipe, refused


def claimed(shape, kind="<f4"):
    """An array's head, of so many numbers, and none of them."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
    return file.getvalue()


def archive(arrays, method=zipfile.ZIP_STORED):
    def make(path):
        with zipfile.ZipFile(path, "w", method) as file:
            for name, data in arrays.items():
                file.writestr(f"{name}.npy", data)

    return make


def overlapping(path):
    """A thousand arrays that are one megabyte."""
    archive({"map": claimed((1 << 18,)) + bytes(1 << 20)})(path)
    with zipfile.ZipFile(path, "a") as file:
        file.filelist += file.infolist() * 1000
        file._didModify = True


def folder(path):
    path.mkdir()


def written(data):
    return lambda path: path.write_bytes(data)


MAPS = {
    "100 MB of zeros packed in 100 kB": (
        archive({"map": claimed((25_000_000,)) + bytes(100_000_000)}, zipfile.ZIP_DEFLATED),
        "its arrays are packed",
    ),
    "a thousand arrays that are one": (overlapping, "its arrays overlap"),
    "an array of 2 ** 40 numbers without one": (archive({"map": claimed((2**40,))}), "attention maps"),
    "an array of 2 ** 62 numbers": (archive({"map": claimed((2**62,))}), "attention maps"),
    "one array of 2 ** 40 numbers, and no archive": (written(claimed((2**40,))), "attention maps"),
    "an array of objects": (archive({"map": claimed((1,), "|O") + b"\x80\x02]."}), "attention maps"),
    "a pickle": (written(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00echo\x85R."), "attention maps"),
    "2 GB without content": (lambda path: hole(path, 2 << 30), "at most"),
    "a pipe": (pipe, "is a pipe or a device"),
    "a folder": (folder, "attention maps"),
    "no file": (lambda path: None, "is missing"),
    "text": (written(b"{}"), "attention maps"),
}


@pytest.mark.parametrize(("make", "said"), MAPS.values(), ids=MAPS)
def test_a_file_of_maps_is_refused_for(tmp_path, make, said):
    path = tmp_path / "attention.npz"
    make(path)
    found = refused(lambda: attention_maps.read(path))
    assert said in found
    assert str(path) in found
