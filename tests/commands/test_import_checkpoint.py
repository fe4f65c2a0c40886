"""import_checkpoint: a checkpoint becomes the weights of a run, completely or not at all."""

import hashlib
import json
import math
from unittest.mock import patch

import pytest

from pipeline.weights import trained_model
from tests import released
from tests.released import CASES
from tests.running import refuse, stage, succeed


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    released.prepare(tmp_path, CASES["scorer"])
    (tmp_path / "their.pt").rename(tmp_path / "checkpoint_9000.pt")
    return tmp_path


COMMAND = "import_checkpoint checkpoint_9000.pt --vocab vocab.json --heads 2"


def refused(folder, said, command):
    """Check that the command ends with one line, and writes nothing."""
    before = sorted(folder.rglob("*"))
    assert refuse(folder, command, said).count("\n") == 1
    assert [path for path in sorted(folder.rglob("*")) if path not in before] == []


def test_the_source_is_recorded(folder, capsys):
    assert succeed(folder, f"{COMMAND} --seed 3").stderr == ""
    kept = folder / "data/imported/clevr_change/scorer/3/train"
    _, trained = trained_model.load(kept / "weights")
    assert trained.iteration == 0
    assert math.isnan(trained.validation)
    sha256 = hashlib.sha256((folder / "checkpoint_9000.pt").read_bytes()).hexdigest()
    source = {"checkpoint": "checkpoint_9000.pt", "checkpoint_sha256": sha256}
    assert json.loads((kept / "source.json").read_text()) == source
    assert sha256 in capsys.readouterr().out
    assert not list(folder.rglob("*.partial"))


def test_with_out_only_the_weights_are_written(folder):
    assert succeed(folder, f"{COMMAND} --out weights/1").stderr == ""
    made = {"checkpoint_9000.pt", "params.yaml", "vocab.json", "weights"}
    assert {path.name for path in folder.iterdir()} == made
    written = {path.name for path in (folder / "weights/1").iterdir()}
    assert written == {".made.json", "model.yaml", "weights.safetensors"}


@pytest.mark.parametrize(
    "out", ["data/weights/clevr_change/scorer/1", "data/recipes/x/pretrained", "data/weights"]
)
def test_folders_that_a_stage_would_remove_are_refused(folder, out):
    refused(folder, f"{out} belongs to a stage", f"{COMMAND} --out {out}")
    (folder / "link").symlink_to(folder / "data")
    refused(folder, "belongs to a stage", f"{COMMAND} --out {out.replace('data', 'link', 1)}")


def test_existing_files_are_kept(folder):
    out = folder / "weights/1"
    out.mkdir(parents=True)
    (out / "mine").write_text("x")
    refused(folder, "weights/1 holds 'mine'", f"{COMMAND} --out weights/1")
    assert succeed(folder, COMMAND).stderr == ""
    refused(folder, "data/imported/clevr_change/scorer/1/train exists already", COMMAND)


def test_other_files_are_refused_and_nothing_is_written(folder):
    refused(folder, "absent.pt cannot be read", COMMAND.replace("checkpoint_9000", "absent"))
    refused(folder, "absent.json is missing", COMMAND.replace("vocab.json", "absent.json"))
    (folder / "list.json").write_text("[1]")
    refused(folder, "list.json must map words to ids", COMMAND.replace("vocab.json", "list.json"))
    refused(folder, "unknown dataset 'nowhere'", f"{COMMAND} --dataset nowhere")


def test_a_failure_while_writing_leaves_nothing(folder):
    before = sorted(folder.iterdir())
    with patch("commands.import_checkpoint.write_json", side_effect=RuntimeError("late")):
        assert stage(folder, COMMAND).returncode == 1
    left = [path for path in sorted(folder.rglob("*")) if path not in before]
    assert [path.name for path in left] == ["data", "imported", "clevr_change", "scorer", "1"]
