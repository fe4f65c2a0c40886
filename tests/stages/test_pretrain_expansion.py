"""Pre-training on CUB's images, then on Birds-to-Words' pairs with NABirds beside, by the stages."""

import csv
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pipeline.cli import phase_run
from pipeline.config import params, resolving
from pipeline.features.store import FeatureStore
from pipeline.text import vocabularies
from pipeline.training import phases, resuming
from tests.backbones import TINY as TINY_BACKBONE
from tests.backbones import write_tiny
from tests.birds_lab import BIRDS, OWN, START, TINY, command, left, prepare, resolve, said, vocabulary
from tests.killed import KilledError
from tests.own_settings import phase_before
from tests.running import refuse, set_params, stage, succeed


@pytest.fixture(scope="module")
def prepared_birds(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("birds"))


def test_both_phases_and_then_the_captioning(prepared_birds):
    root = prepared_birds
    recipe = resolve(root)
    succeed(root, command("out"))
    curves = root / "out/curves"
    rows = list(csv.DictReader((curves / "loss.csv").read_text().splitlines()))
    assert {"mlm", "mvcl", "fda", "class_pairs", "class_accuracy", "same_accuracy"} < set(rows[0])
    assert rows[-1]["class_pairs"] != "nan"
    assert "class_pairs" not in (curves / "images/loss.csv").read_text()
    validation = list(csv.DictReader((curves / "validation.csv").read_text().splitlines()))
    assert all(float(row["class_pairs"]) > 0 and 0 <= float(row["same_accuracy"]) <= 1 for row in validation)
    assert json.loads((root / "out/provenance-images.json").read_text())["seconds"] > 0
    assert sorted(path.name for path in (root / "out").iterdir()) == [
        *("curves", "first", "provenance-images.json", "provenance.json")
    ]
    trained = load_file(root / "out/first/weights.safetensors")
    captioner = phases.captioning(recipe, root / "out/first", "plain").make((5, 4, 4), vocabulary(root))
    assert all(
        torch.equal(x, trained[f"difference.{n}"]) for n, x in captioner.difference.state_dict().items()
    )


def test_the_second_phase_takes_over_all_that_the_first_one_trained(prepared_birds, monkeypatch):
    recipe = resolve(prepared_birds)
    with monkeypatch.context() as patched:
        patched.setattr(phase_run, "clear", lambda _: None)  # which removes what the first phase left
        succeed(prepared_birds, command("kept"))
    (first,) = [
        path.parent for path in (prepared_birds / "kept").glob(".first.*.scratch/weights.safetensors")
    ]
    trained = load_file(first / "weights.safetensors")
    model = phase_before(recipe, weights=first).make((5, 4, 4), vocabulary(prepared_birds))
    own = model.state_dict()
    assert {name.split(".")[0] for name in own.keys() - trained.keys()} == {"class_pairs"}
    assert all(torch.equal(own[name], tensor) for name, tensor in trained.items())
    torch.manual_seed(1)
    fresh = phase_before(recipe).make((5, 4, 4), vocabulary(prepared_birds)).state_dict()
    assert not torch.equal(fresh["cell_head.map.weight"], trained["cell_head.map.weight"])


def test_killed_in_and_after_the_first_phase_it_goes_on_with_the_same_bytes(prepared_birds, monkeypatch):
    resolve(prepared_birds)
    succeed(prepared_birds, command("whole"))
    weights, curves = left(prepared_birds, "whole")
    trained, save = [], resuming.save

    def saving(state, history, model, optimiser):
        save(state, history, model, optimiser)
        trained.append((model.single, history.iteration))
        if len(trained) < 4:
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(resuming, "save", saving)
        for _ in range(3):
            with pytest.raises(KilledError):
                stage(prepared_birds, command("killed"))
        succeed(prepared_birds, command("killed"))
    assert trained == [(True, 2), (True, 4), (False, 2), (False, 4)], "nothing was trained twice"
    again = left(prepared_birds, "killed")
    assert again[1] == curves
    assert all(torch.equal(again[0][name], tensor) for name, tensor in weights.items())
    succeed(prepared_birds, command("other", seed=2))
    assert left(prepared_birds, "other")[1] != curves


def test_the_recipe_names_what_the_pre_training_reads_by_hash(prepared_birds):
    root = prepared_birds

    def started(**switches):
        resolve(root, model__idc_pcl__switches={"extra_data": "cub_nabirds"} | switches)
        succeed(root, START)
        return json.loads((root / "inputs.json").read_text())

    every = started()
    assert set(every) == {"input", "sha256", "negatives", "cub", "nabirds"}
    for without, lacks in (
        ({"tasks": "mlm_mvcl"}, {"negatives"}),
        ({"extra_data": "nabirds"}, {"cub"}),
        ({"extra_data": "cub"}, {"nabirds"}),
    ):
        assert started(**without) == {name: value for name, value in every.items() if name not in lacks}
    records = root / "data/pretraining/records/cub/negatives.jsonl"
    text = records.read_text()
    records.write_text(text.replace("belly", "wing", 1))
    changed = started()
    records.write_text(text)
    assert {name for name in changed if changed[name] != every[name]} == {"cub"}


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (
            "data/pretraining/records/cub/records.jsonl",
            "is missing: idc_pcl is pre-trained on it; add cub to pretraining.datasets in params.yaml",
        ),
        ("data/pretraining/stores/nabirds/grid.zarr/zarr.json", "add nabirds to pretraining.datasets"),
    ],
)
def test_what_is_missing_is_one_line(prepared_birds, missing, said):
    resolve(prepared_birds)
    path = prepared_birds / missing
    path.rename(path.with_suffix(".away"))
    assert missing in refuse(prepared_birds, START, said)
    path.with_suffix(".away").rename(path)


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("data/pretraining/records/cub/negatives.jsonl", "add cub to pretraining.datasets"),
        ("data/pretraining/records/cub/records.jsonl", "add cub to pretraining.datasets"),
        ("data/pretraining/records/nabirds/records.jsonl", "add nabirds to pretraining.datasets"),
        ("data/pretraining/stores/nabirds/grid.zarr/zarr.json", "extract_pretraining@nabirds`"),
        ("vocab.json", "run `dvc repro vocab` to make it"),
    ],
)
def test_by_hand_what_is_missing_is_one_line_too(prepared_birds, missing, said):
    resolve(prepared_birds)
    path = prepared_birds / missing
    path.rename(path.with_suffix(".away"))
    refuse(prepared_birds, command("nothing"), said)
    path.with_suffix(".away").rename(path)
    assert not (prepared_birds / "nothing").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"dataset__birds_to_words__text__counted_with": None},
            "extra_data contains cub, and the vocabulary lacks CUB's words; set "
            "dataset.birds_to_words.text.counted_with: cub",
        ),
        (
            {f"{OWN}__images": None},
            "dataset.birds_to_words.own.idc_pcl.images is missing",
        ),
        (
            {f"{OWN}__pretrain__tasks": {"mlm": 1.0, "mvcl": 1.0, "fda": 1.0}},
            "dataset.birds_to_words.own.idc_pcl.pretrain.tasks.class_pairs is missing",
        ),
        (
            {"dataset__birds_to_words__text__vocabulary": "words.json"},
            "dataset.birds_to_words.text: vocabulary names a file",
        ),
    ],
)
def test_settings_that_do_not_fit_are_one_line(prepared_birds, changes, said):
    order = {key: value for key, value in changes.items() if key != f"{OWN}__images"}
    small = {key: value for key, value in TINY.items() if not key.startswith(f"{OWN}__images")}
    set_params(prepared_birds, **((small if f"{OWN}__images" in changes else TINY) | changes | order))
    refuse(prepared_birds, f"recipe --dataset {BIRDS} --model idc_pcl --out r.yaml", said)
    assert not (prepared_birds / "r.yaml").exists()


def test_the_recipe_has_the_tasks_that_are_asked_for(prepared_birds):
    every = ["mlm", "mvcl", "fda"]
    set_params(prepared_birds, **TINY)
    everything = params.load(prepared_birds / "params.yaml")
    for switches, wanted, images in (
        ({}, every, None),
        ({"extra_data": "cub"}, every, every),
        ({"extra_data": "nabirds"}, [*every, "class_pairs"], None),
        ({"extra_data": "cub_nabirds", "tasks": "mlm"}, ["mlm", "class_pairs"], ["mlm"]),
    ):
        model = everything.model["idc_pcl"] | {"switches": switches}
        own = everything.model_copy(update={"model": everything.model | {"idc_pcl": model}})
        recipe = resolving.resolve(own, BIRDS, "idc_pcl")
        assert list(recipe.adapt["tasks"]) == wanted
        assert (list(recipe.adapt["images"]["tasks"]) if "images" in recipe.adapt else None) == images
        extra = switches.get("extra_data", "none")
        assert recipe.pretrained_on == [name for name in ("cub", "nabirds") if name in extra]


def test_the_vocabulary_has_the_words_of_both(prepared_birds):
    root, pairs = prepared_birds, f"--dataset {BIRDS} --pairs data/pairs/{BIRDS}.jsonl"
    both = vocabulary(root)
    assert {"animal1", "belly"} <= set(both.words)
    set_params(root, **(TINY | {"dataset__birds_to_words__text__counted_with": None}))
    succeed(root, f"vocab {pairs} --out alone.json")
    alone = vocabularies.load(root / "alone.json")
    assert set(alone.words) < set(both.words)
    assert "belly" not in alone.words
    assert alone.longest == both.longest
    set_params(root, **TINY)
    refuse(
        root, f"vocab {pairs} --pretraining nowhere --out x.json", "add cub to pretraining.datasets in params"
    )
    assert vocabularies.cut(both, 5).encode(said(1)) == [*both.encode(said(1))[:4], 3]
    assert vocabularies.cut(both, 5, marks=3).encode(said(1)) == [*both.encode(said(1))[:3], 3]


def test_features_of_cub_are_extracted(prepared_birds):
    root, out = prepared_birds, "--out store.zarr --provenance p.json"
    file = write_tiny(root / "w.safetensors").name
    command = f"extract --dataset cub --records data/pretraining/records/cub {out}"
    own = {"pretraining__backbone": TINY_BACKBONE, "pretraining__weights": file, "features__size": 32}
    set_params(root, **(TINY | own))
    succeed(root, command)
    store = FeatureStore(root / "store.zarr", {"backbone": TINY_BACKBONE, "weights": file, "size": 32})
    assert store.shape == (48, 2, 2)
    assert store.attributes["standardise"] is False
    assert len(store.row) == 12
    grids = store.read(list(store.row))
    assert np.abs(grids[0] - grids[-1]).max() > 0
    set_params(root, **(TINY | own | {"features__weights": "other.safetensors"}))
    refuse(root, command, "features.weights: other.safetensors is missing")
