"""Real datasets from their folder to scores, stage by stage, on small folders in their layouts."""

import json
from shutil import copyfile

import numpy as np
import pytest

from pipeline.datasets import images, manifest
from pipeline.datasets.schema import read_pairs
from pipeline.features.store import FeatureStore
from tests.backbones import write_resnet101
from tests.running import ROOT, set_params, succeed
from tests.synthetic_real import MAKERS

WEIGHTS = "data/weights/resnet101.safetensors"
SMALL = {"width": 16, "heads": 2, "layers": 1, "decoder_layers": 1, "word_width": 8}


def prepare(folder, dataset, **changes):
    """Run the first stage. Return the files that it wrote: pairs, index of images, manifest."""
    MAKERS[dataset](folder / "data/raw" / dataset)
    set_params(folder, features__weights=WEIGHTS, **{f"dataset__{dataset}__sizes": SMALL}, **changes)
    pairs, index, record = (f"data/{name}" for name in ("p.jsonl", "i.jsonl", "f.json"))
    card = "card.yaml"
    copyfile(ROOT / "data/cards" / f"{dataset}.yaml", folder / card)  # the project's folder may have spaces
    outs = f"--pairs {pairs} --images {index} --manifest {record}"
    succeed(folder, f"prepare --dataset {dataset} --card {card} {outs}")
    return pairs, index, record


def run(folder, dataset, **changes):
    """Run all stages of one run, on features of an untrained ResNet-101. Return its metrics."""
    write_resnet101(folder / WEIGHTS)
    pairs, index, record = prepare(folder, dataset, **changes)
    data = f"--pairs {pairs} --vocab v.json --features s"
    for command in (
        f"extract --dataset {dataset} --pairs {pairs} --images {index} --out s/grid.zarr --provenance e.json",
        f"vocab --dataset {dataset} --pairs {pairs} --out v.json",
        f"recipe --dataset {dataset} --model scorer_cbr --out r.yaml",
        f"train --recipe r.yaml --seed 1 {data} --weights w --curves c --provenance p.json",
        f"decode --weights w {data} --out captions.json --attention a.npz",
        f"score --captions captions.json --pairs {pairs} --manifest {record} --attention a.npz "
        f"--images {index} --out metrics.json --summary summary.json --per-pair each.jsonl",
    ):
        succeed(folder, command)
    return json.loads((folder / "metrics.json").read_text())


@pytest.mark.slow
@pytest.mark.usefixtures("made_up_meteor")
def test_changes_of_unnamed_kinds_from_the_folder_to_scores(tmp_path):
    own = {"model__scorer_cbr__variant": "released", "train__schedule": "step"}
    metrics = run(tmp_path, "levir_cc", features__resize="opencv_bicubic", **own)
    assert "variant: released" in (tmp_path / "w/model.yaml").read_text()
    store = FeatureStore(
        tmp_path / "s/grid.zarr",
        {"backbone": "resnet101", "stride": 16, "weights": WEIGHTS, "resize": "opencv_bicubic"},
    )
    grid = store.read(list(store.row)[:2])
    assert (store.shape, store.dtype) == ((1024, 4, 4), "float16")
    assert np.isfinite(grid).all()
    assert np.abs(grid[0] - grid[1]).max() > 0
    pairs = read_pairs(tmp_path / "data/p.jsonl")
    captions = json.loads((tmp_path / "captions.json").read_text())
    assert [each["image_id"] for each in captions] == [p.pair_id for p in pairs if p.split == "test"]
    assert set(metrics["change"]) == set(metrics["no_change"]) >= {"BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D"}
    assert 0 <= metrics["change_accuracy"] <= 1
    assert metrics["scorers"]["references"] == "levir_cc"
    read = manifest.read(tmp_path / "data/f.json")
    assert read.counts["pairs"] == len(pairs)
    assert read.counts["images"] == len(images.read_index(tmp_path / "data/i.jsonl"))
    assert list(read.files) == ["LevirCCcaptions.json"]


def test_the_protocol_decides_the_references(tmp_path):
    own = {"dataset__spot_the_diff__prepare__protocol": "per_entry"}
    pairs, _, manifest_file = prepare(tmp_path, "spot_the_diff", **own)
    found = [pair.captions for pair in read_pairs(tmp_path / pairs) if pair.scene_id == "0"]
    assert found == [("the car is gone",), ("a bus came",)]
    record = manifest.read(tmp_path / manifest_file)
    assert record.references == "spot_the_diff, protocol per_entry"
    ids = {pair.pair_id for pair in read_pairs(tmp_path / pairs)}
    left_out = {key: images for part in record.left_out.values() for key, images in part.items()}
    assert left_out
    assert not ids & left_out.keys()
    assert all(images[0] == f"resized_images/{key.partition('-')[0]}.png" for key, images in left_out.items())
