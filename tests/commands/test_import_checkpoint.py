"""import_checkpoint: a released file becomes a cell's weights, whole or not at all."""

import hashlib
import json
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
    """Exit code and what stands on stderr."""
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


def test_weights_curves_and_source(folder, capsys):
    assert run(folder, "--seed", 3) == (0, "")
    kept = folder / "data/imported/clevr_change/scorer/3/train"
    _, trained = trained_model.load(kept / "weights")
    assert (trained.seed, trained.iteration, trained.recipe.dataset) == (3, 0, "clevr_change")
    assert trained.validation != trained.validation  # NaN: unknown
    assert (kept / "curves/loss.csv").read_text() == "iteration,cap,cv\n"
    assert (kept / "curves/validation.csv").read_text() == "iteration,CIDEr-D\n"
    sha256 = hashlib.sha256((folder / "checkpoint_9000.pt").read_bytes()).hexdigest()
    source = {"checkpoint": "checkpoint_9000.pt", "checkpoint_sha256": sha256}
    assert json.loads((kept / "source.json").read_text()) == source
    assert sha256 in capsys.readouterr().out
    assert not list(folder.rglob("*.partial"))


def test_a_folder_of_ones_own_has_weights_alone(folder):
    assert run(folder, "--out", folder / "weights/1") == (0, "")
    made = {"checkpoint_9000.pt", "params.yaml", "vocab.json", "weights"}
    assert {path.name for path in folder.iterdir()} == made
    assert sorted(path.name for path in (folder / "weights/1").iterdir()) == [
        ".made.json",
        "model.yaml",
        "weights.safetensors",
    ]


@pytest.mark.parametrize(
    "out", ["data/weights/clevr_change/scorer/1", "data/recipes/x/pretrained", "data/weights"]
)
def test_folders_that_a_stage_would_remove_are_refused(folder, out):
    refused(folder, f"{out} belongs to a stage", "--out", out)
    (folder / "link").symlink_to(folder / "data")
    refused(folder, "belongs to a stage", "--out", out.replace("data", "link", 1))


def test_what_is_there_already_is_kept(folder):
    out = folder / "weights/1"
    out.mkdir(parents=True)
    (out / "mine").write_text("x")
    own = ("--out", out)
    refused(folder, "weights/1 holds 'mine', which was not written by what would replace the folder", *own)
    (out / "mine").rename(out / "model.yaml")
    refused(folder, "weights/1 holds 'model.yaml', which was not written by", *own)
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
