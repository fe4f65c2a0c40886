"""A record that somebody forged or damaged gives no leave: one line, and nothing is removed or written."""

import hashlib
import json
import os

import pytest

from pipeline.io.errors import InputError
from pipeline.io.folder_records import RECORD
from pipeline.io.outputs import Contents, Files, replacing
from pipeline.training import live_curves
from tests.folders import contents

KIND = "a kind"
HASH = hashlib.sha256(b"mine").hexdigest()


def saying(files, by=KIND):
    return json.dumps({"by": by, "files": files})


def link(record):
    (record.parents[1] / "elsewhere.json").write_text(saying({"own.txt": HASH}))
    record.symlink_to("../elsewhere.json")


def folder(record):
    record.mkdir()
    (record / "own").write_text("mine")


def huge(record):
    with record.open("wb") as file:
        file.truncate(1 << 31)


FORGED = {
    "nothing": "",
    "no JSON": "{",
    "a list of files": saying(["own.txt"]),
    "of another kind": saying({"own.txt": HASH}, by="another"),
    "a truth for a mark": saying({"own.txt": True}),
    "another mark": saying({"own.txt": HASH[::-1]}),
    "a path out of the folder": saying({"own.txt": HASH, "../outside.txt": HASH}),
    "an absolute path": saying({"own.txt": HASH, "/outside.txt": None}),
    "a key twice": saying({"own.txt": HASH}).replace('"by"', '"by": "x", "by"'),
    "a link": link,
    "a pipe": os.mkfifo,
    "a folder": folder,
    "two gigabytes": huge,
}


@pytest.fixture(params=FORGED.values(), ids=FORGED)
def forged(request, tmp_path):
    place = tmp_path / "out"
    place.mkdir()
    for path in (place / "own.txt", tmp_path / "outside.txt"):
        path.write_text("mine")
    if callable(request.param):
        request.param(place / RECORD)
    else:
        data = request.param
        (place / RECORD).write_bytes(data if isinstance(data, bytes) else data.encode())
    return place


def replace(place):
    with replacing(place, Contents(KIND)) as beside:
        beside.mkdir()


def write_files(place):
    with Files(KIND, ("own.txt",)).written(place):
        (place / "own.txt").write_text("new")


@pytest.mark.parametrize("write", [replace, write_files])
def test_a_forged_record_loses_nothing(forged, write):
    with pytest.raises(InputError, match=r"^[^\n]*out[^\n]*$"):
        write(forged)
    assert sorted(path.name for path in forged.iterdir()) == [RECORD, "own.txt"]
    assert {path.read_text() for path in (forged / "own.txt", forged.parent / "outside.txt")} == {"mine"}


def test_a_true_record_is_one(tmp_path):
    for _ in range(2):
        write_files(tmp_path)
    assert (tmp_path / "own.txt").read_text() == "new"


@pytest.mark.parametrize("place", [".", "..", "../clone", "/"])
def test_curves_are_not_written_over_a_clone(tmp_path, monkeypatch, place):
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("dvc.yaml", "params.yaml", "report.md", "metrics.json"):
        (clone / name).write_text("mine")
    monkeypatch.chdir(clone)
    before = contents(tmp_path)
    with pytest.raises(InputError):
        live_curves.CONTENTS.to_write(place)
    assert contents(tmp_path) == before
