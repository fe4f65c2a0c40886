"""The chain: render, train a backbone, extract with it, probe it; and every mistake as one line."""

import hashlib
import json
import shutil

import pytest
import yaml
from safetensors import safe_open

from pipeline.features.store import FeatureStore
from tests.running import ROOT, refuse, set_params, succeed

PAIRS, IMAGES = "data/pairs/tabletop.jsonl", "data/images/tabletop.jsonl"
STORE, SCENES = "data/features/tabletop/grid.zarr", "data/raw/tabletop/scenes.json"
WEIGHTS, CARD = "data/weights/tabletop/backbone.safetensors", "data/cards/tabletop.yaml"
INPUTS = f"--pairs {PAIRS} --images {IMAGES}"
PREPARE = f"prepare --dataset tabletop --card {CARD} {INPUTS} --manifest manifest.json"
BACKBONE = f"backbone --dataset tabletop {INPUTS} --out {WEIGHTS} --provenance backbone.json"
EXTRACT = f"extract --dataset tabletop {INPUTS} --out {STORE} --provenance extract.json"
PROBE = f"probe --features {STORE} {INPUTS} --scenes {SCENES}"
SMALL = {
    "tabletop__scenes": 10,
    "tabletop__min_objects": 5,
    "tabletop__max_objects": 6,
    "tabletop__width": 96,
    "tabletop__height": 64,
    "features__size": 96,
    "backbone__iterations": 1,
    "backbone__batch": 2,
    "dataset__tabletop__features__weights": WEIGHTS,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which a small tabletop was rendered and prepared."""
    folder = tmp_path_factory.mktemp("backbone")
    set_params(folder, **SMALL)
    render = f"render --dataset tabletop --out data/raw/tabletop --card {CARD}"
    for command in (render, PREPARE):
        succeed(folder, command)
    return folder


@pytest.mark.slow
def test_train_extract_probe(folder, capsys):
    succeed(folder, BACKBONE)
    assert "shown" in capsys.readouterr().out
    with safe_open(folder / WEIGHTS, "pt") as opened:
        made = json.loads(opened.metadata()["made"])
    assert (made["size"], made["iterations"], made["train_images"]) == (96, 1, 24)
    assert (
        json.loads((folder / "backbone.json").read_text())["validation_accuracy"]
        == made["validation_accuracy"]
    )
    assert not any(folder.rglob("*.scratch"))
    first = (folder / WEIGHTS).read_bytes()

    succeed(folder, EXTRACT)
    store = FeatureStore(folder / STORE, {"weights": WEIGHTS})
    assert store.attributes["weights_id"] == f"sha256:{hashlib.sha256(first).hexdigest()}"
    succeed(folder, f"{PROBE} --split test --cells 50 --out probe.json")
    told = json.loads((folder / "probe.json").read_text())
    assert set(told["accuracy"]) == set(told["majority"]) == {"color", "shape", "material", "size"}
    assert told["cells"]["train"] == 50
    assert "cells of test" in capsys.readouterr().out

    succeed(folder, BACKBONE)
    assert (folder / WEIGHTS).read_bytes() == first


def test_mistakes_are_one_line(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    set_params(copy, **SMALL | {"backbone__batch": 100})
    refuse(copy, BACKBONE.replace(WEIGHTS, "w"), "backbone.batch is 100 images, but the train split has 24")
    refuse(copy, f"{PROBE} --cells 0".replace(STORE, "x.zarr"), "--cells: 0 are none")
    refuse(copy, PROBE.replace(STORE, "x.zarr"), "x.zarr")
    lines = (copy / IMAGES).read_text().splitlines(keepends=True)
    (copy / IMAGES).write_text("".join(lines).replace('"width": 96', '"width": 48'))
    refuse(copy, BACKBONE.replace(WEIGHTS, "w"), "scenes.json does not fit ")
    (copy / IMAGES).write_text("".join(lines[1:]))
    refuse(copy, BACKBONE.replace(WEIGHTS, "w"), f"{IMAGES} does not list ")
    (copy / SCENES).unlink()
    refuse(copy, BACKBONE.replace(WEIGHTS, "w"), "scenes.json is missing; name the scenes.json that")
    assert not (copy / "w").exists()
    assert not list(copy.glob(".w*"))


def test_the_stage_is_off_by_default():
    """With no dataset named, the stage has no cells: `dvc repro` and `dvc status` know nothing of it."""
    assert yaml.safe_load((ROOT / "params.yaml").read_text())["backbone"]["datasets"] == []
    stage = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]["backbone"]
    assert stage["matrix"] == {"dataset": "${backbone.datasets}"}
