"""Untrusted captions and references that are no file, no text, or no JSON of bounded depth."""

from pathlib import Path

import pytest

from pipeline.scoring.caption_files import read_results
from pipeline.scoring.reference_files import read_references
from tests.hostile import LEVELS, large, pipe, refused, shallow

FILES = {
    "a whole number of 5000 digits": ('[{"image_id": ' + "9" * 5000 + "}]", "an integer too long to be read"),
    "deep nesting": ('{"a":' * LEVELS + "1" + "}" * LEVELS, "is not valid JSON"),
    "no UTF-8": (b"[\xff]", "is not UTF-8 text"),
    "a key of terminal escapes twice": ('{"\\u001b[2J": [], "\\u001b[2J": []}', "more than once"),
    "a pipe": (pipe, "is a pipe or a device"),
    "a size of 2 GB": (lambda path: large(path, 2 << 30), "this kind of file is 1 GiB"),
    "no file": (Path.unlink, "is missing"),
}


@pytest.mark.parametrize("read", [read_results, read_references], ids=["captions", "references"])
@pytest.mark.parametrize(("content", "said"), FILES.values(), ids=FILES)
def test_a_file_is_refused_for(tmp_path, read, content, said):
    path = tmp_path / "file.json"
    path.touch()
    if callable(content):
        content(path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with shallow():
        found = refused(lambda: read(path))
    assert said in found
    assert str(path) in found


TYPES = {"a number in place of references": ("NaN", "Input should be a valid")}


@pytest.mark.parametrize(("content", "said"), TYPES.values(), ids=TYPES)
def test_references_are_refused_for(tmp_path, content, said):
    (tmp_path / "file.json").write_text(content)
    assert said in refused(lambda: read_references(tmp_path / "file.json"))
