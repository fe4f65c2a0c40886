"""import_checkpoint: a checkpoint becomes the weights of a run, completely or not at all."""

import hashlib
import json
import math
import sys
from unittest.mock import patch

import pytest

import stages
from commands import import_checkpoint
from pipeline.weights import trained_model
from tests import released
from tests.released import CASES
from tests.running import stage


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    released.prepare(tmp_path, CASES["scorer"])
    (tmp_path / "their.pt").rename(tmp_path / "checkpoint_9000.pt")
    return tmp_path


def run(folder, *options, checkpoint="checkpoint_9000.pt", vocab="vocab.json"):
    """Return the exit code and the text on stderr."""
    arguments = [folder / checkpoint, "--vocab", folder / vocab, "--heads", 2]
    done = stage(folder, ["import_checkpoint", *arguments, *options])
    return done.returncode, done.stderr


def refused(folder, said, *options, **names):
    before = sorted(folder.rglob("*"))
    code, stderr = run(folder, *options, **names)
    assert code == 2
    assert stderr.startswith("error: ")
    assert stderr.count("\n") == 1
    assert said in stderr
    assert [path for path in sorted(folder.rglob("*")) if path not in before] == []


def test_the_source_is_recorded(folder, capsys):
    assert run(folder, "--seed", 3) == (0, "")
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
    assert run(folder, "--out", folder / "weights/1") == (0, "")
    made = {"checkpoint_9000.pt", "params.yaml", "vocab.json", "weights"}
    assert {path.name for path in folder.iterdir()} == made
    written = {path.name for path in (folder / "weights/1").iterdir()}
    assert written == {".made.json", "model.yaml", "weights.safetensors"}


@pytest.mark.parametrize(
    "out", ["data/weights/clevr_change/scorer/1", "data/recipes/x/pretrained", "data/weights"]
)
def test_folders_that_a_stage_would_remove_are_refused(folder, out):
    refused(folder, f"{out} belongs to a stage", "--out", out)
    (folder / "link").symlink_to(folder / "data")
    refused(folder, "belongs to a stage", "--out", out.replace("data", "link", 1))


def test_existing_files_are_kept(folder):
    out = folder / "weights/1"
    out.mkdir(parents=True)
    (out / "mine").write_text("x")
    own = ("--out", out)
    refused(folder, "weights/1 holds 'mine'", *own)
    assert run(folder) == (0, "")
    refused(folder, "data/imported/clevr_change/scorer/1/train exists already")


def test_other_files_are_refused_and_nothing_is_written(folder):
    refused(folder, "absent.pt cannot be read", checkpoint="absent.pt")
    refused(folder, "absent.json is missing", vocab="absent.json")
    (folder / "list.json").write_text("[1]")
    refused(folder, "list.json must map words to ids", vocab="list.json")
    refused(folder, "unknown dataset 'nowhere'", "--dataset", "nowhere")


def test_a_failure_while_writing_leaves_nothing(folder):
    before = sorted(folder.iterdir())
    arguments = [folder / "checkpoint_9000.pt", "--vocab", folder / "vocab.json", "--heads", 2]
    with (
        patch("commands.import_checkpoint.write_json", side_effect=RuntimeError("late")),
        patch.object(sys, "argv", ["x", *map(str, arguments)]),
        pytest.raises(SystemExit, match="1"),
    ):
        stages.run(import_checkpoint.main)
    left = [path for path in sorted(folder.rglob("*")) if path not in before]
    assert [path.name for path in left] == ["data", "imported", "clevr_change", "scorer", "1"]
