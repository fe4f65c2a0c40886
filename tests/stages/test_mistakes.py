"""Mistakes of a user: each ends a stage with one line and exit code 2."""

import os
import subprocess
import sys

import pytest

from tests.running import ROOT, refuse, set_params, succeed
from tests.stage_commands import DECODE, MAKE_RECIPE, MANIFEST, PAIRS, PREPARE, train_with


def test_a_stage_as_a_process(raw):
    set_params(raw, train__epochs=3)
    command = [sys.executable, "-W", "error", "-m", *f"stages.{PREPARE}".split()]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=raw, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: params.yaml: unknown key train.epochs; remove it or correct its spelling\n"


@pytest.mark.parametrize(
    ("changes", "command", "said"),
    [
        ({"dataset__tabletop__prepare__reader": "clever"}, PREPARE, "unknown reader 'clever'"),
        ({"dataset__tabletop__prepare__root": "data/raw/nowhere"}, PREPARE, "data/raw/nowhere is missing"),
        ({}, PREPARE.replace("--dataset tabletop", "--dataset nowhere"), "unknown dataset 'nowhere'"),
        ({}, MAKE_RECIPE.replace("scorer_cbr", "scorrer"), "unknown model 'scorrer'"),
    ],
)
def test_unknown_names(raw, changes, command, said):
    set_params(raw, **changes)
    refuse(raw, command, said)
    assert not (raw / "data/pairs").exists()


def test_missing_and_truncated_images(raw):
    folder = raw / "data/raw/tabletop"
    (folder / "images/CLEVR_default_000003.png").unlink()
    picture = folder / "sc_images/CLEVR_semantic_000005.png"
    picture.write_bytes(picture.read_bytes()[:500])
    said = refuse(raw, PREPARE, "2 problem(s)")
    assert "CLEVR_default_000003.png" in said
    assert "CLEVR_semantic_000005.png" in said
    assert not (raw / "data/pairs").exists()


def test_a_split_without_pairs_is_not_decoded(copy):
    lines = (copy / PAIRS).read_text().splitlines(keepends=True)
    (copy / PAIRS).write_text("".join(line for line in lines if '"split": "val"' not in line))
    (copy / MANIFEST).unlink()  # the manifest has the hash of the pairs
    refuse(copy, f"{DECODE} --split val".replace("captions", "new"), "has no pair of the split val")
    assert not (copy / "new.json").exists()


def test_select_truth_needs_scenes(copy):
    set_params(copy, dataset__tabletop__train__select="truth")
    succeed(copy, MAKE_RECIPE)
    refuse(copy, train_with(2, "weights/2"), "train.select: truth needs scenes")
    assert not (copy / "weights/2").exists()


def test_no_java(copy, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    refuse(copy, train_with(1, "weights/new").replace(" --tokens plain", ""), "JAVA_HOME")
    assert not (copy / "weights/new").exists()
