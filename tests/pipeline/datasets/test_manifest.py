"""What was prepared: written, read back, refused where it is something else."""

import pytest

from pipeline.datasets import manifest
from pipeline.datasets.manifest import Manifest
from pipeline.io.errors import InputError

MERGED = Manifest("spot_the_diff", "merged", {"annotations/test.json": "ab"}, {"test": {"pairs": 1270}})


def test_written_and_read_back(tmp_path):
    manifest.write(tmp_path / "manifest.json", MERGED)
    assert manifest.read(tmp_path / "manifest.json") == MERGED


def test_the_references_name_the_protocol_where_there_is_one():
    assert MERGED.references == "spot_the_diff, protocol merged"
    assert Manifest("clevr_change", None, {}, {}).references == "clevr_change"


@pytest.mark.parametrize("text", ["{}", '{"reader": "x", "more": 1}'])
def test_another_file_is_refused(tmp_path, text):
    path = tmp_path / "manifest.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"manifest\.json: .*; run `dvc repro prepare`"):
        manifest.read(path)
