"""Outputs that cannot be written: one line, exit code 2, nothing half-written, no work lost."""

import pytest

from pipeline.features import extraction
from tests.pipeline.io.test_outputs import small_files
from tests.running import refuse, stage, succeed
from tests.stage_commands import EXTRACT, PREPARE, STORE, raw


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = raw(tmp_path_factory.mktemp("refused"), scenes=6)
    succeed(folder, PREPARE)
    return folder


def test_features_that_the_disk_cannot_take(folder):
    with small_files():
        done = stage(folder, EXTRACT)
    assert done.returncode == 2
    assert done.stderr.endswith(
        f"error: cannot write {STORE}: the file is larger than is allowed; "
        "raise the limit (`ulimit -f`), and run it again\n"
    )
    assert not (folder / STORE).exists()


def test_features_are_kept_if_only_the_provenance_cannot_be_written(folder, monkeypatch):
    (folder / "full").touch()
    refuse(folder, EXTRACT.replace("extract.json", "full/extract.json"), "a file, or a link to nothing")
    assert not (folder / STORE).exists()
    (scratch,) = folder.rglob("*.scratch")
    read = []
    monkeypatch.setattr(extraction.Extractor, "features", lambda self, rows: iter(read.extend(rows) or ()))
    succeed(folder, EXTRACT)
    assert (read, scratch.exists(), (folder / STORE).exists()) == ([], False, True)
