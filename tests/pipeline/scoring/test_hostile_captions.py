"""Untrusted captions and references that take memory or time, are no file, or no text.

Wrong forms are in test_scoring_coco_files.py.
"""

from pathlib import Path

import pytest

from pipeline.scoring import coco_files
from pipeline.scoring.coco_files import read_references, read_results
from tests.hostile import hole, pipe, refused

FILES = {
    "a whole number of 5000 digits": ('[{"image_id": ' + "9" * 5000 + "}]", "an integer too long to be read"),
    "100000 objects within each other": ('{"a":' * 100_000, "is not valid JSON"),
    "no UTF-8": (b"[\xff]", "is not UTF-8 text"),
    "a number that is none": ("NaN", "Input should be a valid"),
    "a key of terminal escapes that stands twice": ('{"\\u001b[2J": [], "\\u001b[2J": []}', "more than once"),
}


@pytest.mark.parametrize("read", [read_results, read_references], ids=["captions", "references"])
@pytest.mark.parametrize(("content", "said"), FILES.values(), ids=FILES)
def test_a_file_is_refused_for(tmp_path, read, content, said):
    path = tmp_path / "file.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = refused(lambda: read(path))
    assert said in found
    assert str(path) in found


@pytest.mark.parametrize(
    "content", ["[" + "{}," * 5_000_000 + "{}]", "[" + "1," * 9_000_000 + "1]"], ids=["{}", "1"]
)
@pytest.mark.parametrize("read", [read_results, read_references], ids=["captions", "references"])
def test_millions_of_values_are_refused(tmp_path, read, content):
    """Before they are made: of 210 MB of empty objects Python needs 4.5 GB."""
    path = tmp_path / "file.json"
    path.write_text(content)
    found = refused(lambda: read(path))
    assert f"{path} holds more than {coco_files.MOST:,} values" in found


def test_millions_of_faults_are_one(tmp_path):
    path = tmp_path / "file.json"
    path.write_text("[" + "{}," * 1_000_000 + "{}]")
    assert "entry 0: the key image_id is missing" in refused(lambda: read_results(path))


NO_FILES = {
    "a pipe": (pipe, "is a pipe or a device"),
    "2 GB without content": (lambda path: hole(path, 2 << 30), "at most"),
    "no file": (Path.unlink, "is missing"),
}


@pytest.mark.parametrize("read", [read_results, read_references], ids=["captions", "references"])
@pytest.mark.parametrize(("make", "said"), NO_FILES.values(), ids=NO_FILES)
def test_in_place_of_a_file_is_refused(tmp_path, read, make, said):
    path = tmp_path / "file.json"
    path.touch()
    make(path)
    assert said in refused(lambda: read(path))
