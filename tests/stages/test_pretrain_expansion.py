"""Pre-training on CUB's images, then on Birds-to-Words' pairs and NABirds, by the stages."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pipeline.cli import phase_run
from pipeline.config import params, resolving
from pipeline.features.store import FeatureStore
from pipeline.text import vocabularies
from pipeline.training import resuming
from tests.backbones import TINY as TINY_BACKBONE
from tests.backbones import write_tiny
from tests.birds_lab import BIRDS, OWN, START, TINY, command, left, prepare, resolve, said, vocabulary
from tests.killed import KilledError
from tests.own_settings import captioning, pretraining_phase
from tests.running import refuse, set_params, stage, succeed


@pytest.fixture(scope="module")
def prepared_birds(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("birds"))


def test_each_phase_starts_from_the_weights_before_it(prepared_birds, monkeypatch):
    root = prepared_birds
    recipe = resolve(root)
    with monkeypatch.context() as patched:
        patched.setattr(phase_run, "clear", lambda _: None)  # keeps the scratch folder of the first phase
        succeed(root, command("out"))
    (first,) = (root / "out").glob(".first.*.scratch/weights.safetensors")
    before, after = load_file(first), load_file(root / "out/first/weights.safetensors")
    started = pretraining_phase(recipe, start=first.parent).make((5, 4, 4), vocabulary(root)).state_dict()
    assert {name.split(".")[0] for name in started.keys() - before.keys()} == {"class_pairs"}
    assert all(torch.equal(started[name], tensor) for name, tensor in before.items())
    captioner = captioning(recipe, root / "out/first", "plain").make((5, 4, 4), vocabulary(root))
    own = captioner.difference.state_dict()
    assert all(torch.equal(tensor, after[f"difference.{name}"]) for name, tensor in own.items())

    curves = root / "out/curves"
    losses, scores = (
        list(csv.DictReader((curves / name).read_text().splitlines()))
        for name in ("loss.csv", "validation.csv")
    )
    assert {"mlm", "mvcl", "fda", "class_pairs", "class_accuracy", "same_accuracy"} < set(losses[0])
    assert losses[-1]["class_pairs"] != "nan"
    assert "class_pairs" not in (curves / "images/loss.csv").read_text()
    assert all(float(row["class_pairs"]) > 0 and 0 <= float(row["same_accuracy"]) <= 1 for row in scores)
    assert json.loads((root / "out/provenance-images.json").read_text())["seconds"] > 0


def test_a_kill_in_or_after_the_first_phase_changes_no_bytes(prepared_birds, monkeypatch):
    resolve(prepared_birds)
    succeed(prepared_birds, command("whole"))
    names = {"curves", "first", "provenance-images.json", "provenance.json"}
    assert {path.name for path in (prepared_birds / "whole").iterdir()} == names
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
    assert trained == [(True, 2), (True, 4), (False, 2), (False, 4)]  # nothing was trained twice
    again = left(prepared_birds, "killed")
    assert again[1] == curves
    assert all(torch.equal(again[0][name], tensor) for name, tensor in weights.items())
    succeed(prepared_birds, command("other", seed=2))
    assert left(prepared_birds, "other")[1] != curves


def test_inputs_json_has_the_hashes_of_what_pre_training_reads(prepared_birds):
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
    ("run", "missing", "said"),
    [
        (START, "data/pretraining/records/cub/records.jsonl", "add cub to pretraining.datasets"),
        (START, "data/pretraining/stores/nabirds/grid.zarr/zarr.json", "add nabirds to pretraining.datasets"),
        (command("nothing"), "data/pretraining/records/cub/negatives.jsonl", "add cub to pretraining"),
        (command("nothing"), "vocab.json", "run `dvc repro vocab` to make it"),
    ],
)
def test_a_missing_input_is_named(prepared_birds, run, missing, said):
    resolve(prepared_birds)
    path = prepared_birds / missing
    path.rename(path.with_suffix(".away"))
    refuse(prepared_birds, run, said)
    path.with_suffix(".away").rename(path)
    assert not (prepared_birds / "nothing").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dataset__birds_to_words__text__counted_with": None}, "text.counted_with: cub"),
        ({f"{OWN}__images": {}}, "models.idc_pcl.images.iterations is missing"),
        (
            {f"{OWN}__pretrain__tasks": {"mlm": 1.0, "mvcl": 1.0, "fda": 1.0}},
            "models.idc_pcl.pretrain.tasks.class_pairs is missing",
        ),
        ({"dataset__birds_to_words__text__vocabulary": "words.json"}, "dataset.birds_to_words.text"),
    ],
)
def test_settings_that_do_not_fit_are_named(prepared_birds, changes, said):
    small = {key: value for key, value in TINY.items() if not key.startswith(tuple(changes))}
    set_params(prepared_birds, **small, **changes)
    refuse(prepared_birds, f"recipe --dataset {BIRDS} --model idc_pcl --out r.yaml", said)
    assert not (prepared_birds / "r.yaml").exists()


def test_the_switches_decide_the_tasks_of_the_recipe(prepared_birds):
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
        found = {name: [*settings["tasks"]] for name, settings in recipe.pretraining.phases.items()}
        assert found == ({"images": images} if images else {}) | {"pretrain": wanted}
        extra = switches.get("extra_data", "none")
        assert recipe.pretrained_on == [name for name in ("cub", "nabirds") if name in extra]


def test_the_vocabulary_has_the_words_of_both_datasets(prepared_birds):
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
    refuse(root, f"vocab {pairs} --pretraining nowhere --out x.json", "add cub to pretraining.datasets")
    assert replace(both, longest=5).encode(said(1)) == [*both.encode(said(1))[:4], 3]
    assert replace(both, longest=5, marks=3).encode(said(1)) == [*both.encode(said(1))[:3], 3]


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
