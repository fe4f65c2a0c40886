"""Pre-training on CUB's images, then on Birds-to-Words' pairs with NABirds beside, by the stages."""

import csv
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from models.backbone import random_backbone
from pipeline import params, vocabularies
from pipeline.datasets.images import read_index
from pipeline.datasets.schema import Pair, images_of, write_pairs
from pipeline.features import extraction
from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer
from pipeline.recipes import config, recipe_file
from pipeline.training import phases, resuming
from stages import train
from tests.birds import COLOURS, make_birds
from tests.running import ROOT, refuse, set_params, stage, succeed

BIRDS, OWN = "birds_to_words", "dataset__birds_to_words__own__idc_pcl"
TINY = {
    **{f"{OWN}__{phase}__iterations": 4 for phase in ("images", "pretrain")},
    **{f"{OWN}__{phase}__validate_every": 2 for phase in ("images", "pretrain")},
    **{f"{OWN}__{phase}__batch": 4 for phase in ("images", "pretrain")},
    **{f"{OWN}__{phase}__fda_pairs": 2 for phase in ("images", "pretrain")},
    # class_pairs above all: four iterations should have it
    f"{OWN}__pretrain__tasks": {"mlm": 1.0, "mvcl": 1.0, "fda": 1.0, "class_pairs": 3.0},
    f"{OWN}__images__max_tokens": 12,
    f"{OWN}__sizes": {"width": 8, "heads": 2, "single": 1, "pair": 1, "cross": 1, "pool": 2},
    "dataset__birds_to_words__text__counted_with": "cub",
    "pretraining__root__cub": "raw/cub",
    "pretraining__root__nabirds": "raw/nabirds",
    "pretraining__datasets": ["cub", "nabirds"],
    "model__idc_pcl__switches": {"extra_data": "cub_nabirds"},
}
START = f"start --recipe recipe.yaml --features data/features/{BIRDS} --out store.json"
PATHS = f"--pairs data/pairs/{BIRDS}.jsonl --vocab vocab.json --features data/features/{BIRDS}"


def said(number):
    first, second = COLOURS[number % 7], COLOURS[(number + 3) % 7]
    return f"animal1 has a {first} head and animal2 has a {second} head."


def make_pairs():
    splits = ["train"] * 12 + ["val"] * 4 + ["test"] * 2
    return [Pair(f"p{n}", f"s{n}", split, f"{n}a", f"{n}b", (said(n),)) for n, split in enumerate(splits)]


def fill(root, store, keys):
    """Made-up features in the place of ResNet-101's, which the recipe asks for."""
    spec = config.resolve(params.load(root / "params.yaml"), BIRDS, "idc_pcl").features
    writer = Writer(root / "scratch", len(keys), (5, 4, 4))
    random = np.random.default_rng(len(keys)).standard_normal((len(keys), 5, 4, 4))
    writer.write(0, random.astype(np.float16))
    writer.finish(root / store, {"keys": list(keys), **spec})


@pytest.fixture(scope="module")
def prepared_birds(tmp_path_factory):
    root = tmp_path_factory.mktemp("birds")
    set_params(root, **TINY)
    make_birds(root / "raw/cub")
    make_birds(root / "raw/nabirds", captions=False)
    for name in ("cub", "nabirds"):
        records = f"data/pretraining/records/{name}"
        succeed(root, f"prepare_pretraining --dataset {name} --out {records}")
        keys = [image.name for image in read_index(root / records / "images.jsonl")]
        fill(root, f"data/pretraining/stores/{name}/grid.zarr", keys)
    write_pairs(root / f"data/pairs/{BIRDS}.jsonl", make_pairs())
    fill(root, f"data/features/{BIRDS}/grid.zarr", images_of(make_pairs()))
    pairs = f"--dataset {BIRDS} --pairs data/pairs/{BIRDS}.jsonl"
    succeed(root, f"negatives {pairs} --out data/negatives/{BIRDS}.jsonl")
    succeed(root, f"vocab {pairs} --out vocab.json")
    return root


def resolve(root, name="recipe.yaml", **changes):
    set_params(root, **(TINY | changes))
    succeed(root, f"recipe --dataset {BIRDS} --model idc_pcl --out {name}")
    return recipe_file.load(root / name)


def command(out, seed=1, recipe="recipe.yaml"):
    places = f"--weights {out}/pretrained --curves {out}/curves --provenance {out}/provenance.json"
    negatives = f"--negatives data/negatives/{BIRDS}.jsonl"
    return f"pretrain --recipe {recipe} --seed {seed} {PATHS} {negatives} {places}"


def vocabulary(root):
    return vocabularies.load(root / "vocab.json")


def left(root, out):
    weights = load_file(root / out / "pretrained/weights.safetensors")
    curves = {file.name: file.read_bytes() for file in (root / out / "curves").rglob("*.csv")}
    return weights, curves


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
        *("curves", "pretrained", "provenance-images.json", "provenance.json")
    ]
    trained = load_file(root / "out/pretrained/weights.safetensors")
    captioner = phases.captioning(recipe, root / "out/pretrained", "plain").make((5, 4, 4), vocabulary(root))
    assert all(
        torch.equal(x, trained[f"difference.{n}"]) for n, x in captioner.difference.state_dict().items()
    )


def test_the_second_phase_takes_over_all_that_the_first_one_trained(prepared_birds, monkeypatch):
    recipe = resolve(prepared_birds)
    with monkeypatch.context() as patched:
        patched.setattr(train, "clear", lambda _: None)  # which removes what the first phase left
        succeed(prepared_birds, command("kept"))
    (first,) = [
        path.parent for path in (prepared_birds / "kept").glob(".pretrained.*.scratch/weights.safetensors")
    ]
    trained = load_file(first / "weights.safetensors")
    model = phases.pretraining(recipe, {}, first=first).make((5, 4, 4), vocabulary(prepared_birds))
    own = model.state_dict()
    assert {name.split(".")[0] for name in own.keys() - trained.keys()} == {"class_pairs"}
    assert all(torch.equal(own[name], tensor) for name, tensor in trained.items())
    torch.manual_seed(1)
    fresh = phases.pretraining(recipe, {}).make((5, 4, 4), vocabulary(prepared_birds)).state_dict()
    assert not torch.equal(fresh["cell_head.map.weight"], trained["cell_head.map.weight"])


class KilledError(Exception):
    pass


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


def files(root, out):
    """The bytes of all that a run leaves, but when and where it was."""
    return {path.relative_to(root / out): path.read_bytes() for path in (root / out).glob("*/**/*.*")}


@pytest.mark.slow
def test_sigkill_in_the_second_phase_and_then_the_same_bytes(prepared_birds, monkeypatch):
    """A process of its own, killed between two validations; the first phase is not trained again."""
    root, long = prepared_birds, {f"{OWN}__pretrain__iterations": 40, f"{OWN}__pretrain__validate_every": 8}
    resolve(root, **long)
    succeed(root, command("quiet"))
    called = [sys.executable, "-m", *f"stages.{command('shot')}".split()]
    with subprocess.Popen(called, cwd=root, env=os.environ | {"PYTHONPATH": str(ROOT)}) as process:
        while process.poll() is None and len(list(root.glob("shot/.pretrained.*.scratch/loss.csv"))) < 1:
            time.sleep(0.005)
        while process.poll() is None and not list(root.glob("shot/.pretrained.*.scratch/state.pt")):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not (root / "shot/pretrained").exists()
    assert not (root / "shot/curves").exists()
    resumed, resume = [], resuming.resume

    def noted(state, model, *rest):
        history = resume(state, model, *rest)
        resumed.append((model.single, history.iteration))
        return history

    with monkeypatch.context() as patched:
        patched.setattr(resuming, "resume", noted)
        succeed(root, command("shot"))
    assert [(single, 0 < iteration < 40) for single, iteration in resumed] == [(False, True)]
    assert files(root, "shot") == files(root, "quiet")
    assert not list((root / "shot").glob(".*"))
    succeed(root, command("other", seed=3))
    assert files(root, "other").keys() == files(root, "quiet").keys()
    assert files(root, "other") != files(root, "quiet")


def test_start_names_what_the_pre_training_reads_by_hash(prepared_birds):
    root = prepared_birds
    whole = dataclasses.asdict(resolve(root))

    def started(*without):
        adapt = {key: value for key, value in whole["adapt"].items() if key not in without}
        adapt["tasks"] = {task: 1.0 for task in adapt["tasks"] if task not in without}
        (root / "recipe.yaml").write_text(json.dumps(whole | {"adapt": adapt}))
        succeed(root, START)
        return json.loads((root / "store.json").read_text())

    every = started()
    assert set(every) == {"input", "sha256", "negatives", "cub", "nabirds"}
    for without, lacks in (("fda", "negatives"), ("images", "cub"), ("class_pairs", "nabirds")):
        assert started(without) == {name: value for name, value in every.items() if name != lacks}
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
            f"data/negatives/{BIRDS}.jsonl",
            "is missing, and idc_pcl learns from negatives (its task fda); add birds_to_words to "
            "negatives.datasets in params.yaml, and run `dvc repro negatives`",
        ),
        (
            "data/pretraining/records/cub/records.jsonl",
            "is missing, and idc_pcl is pre-trained on it; add cub to pretraining.datasets in params.yaml",
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
            "extra_data has cub, whose words the vocabulary lacks; set "
            "dataset.birds_to_words.text.counted_with: cub",
        ),
        (
            {f"{OWN}__images": None},
            "dataset.birds_to_words.own.idc_pcl.images is missing, the pre-training on",
        ),
        (
            {f"{OWN}__pretrain__tasks": {"mlm": 1.0, "mvcl": 1.0, "fda": 1.0}},
            "dataset.birds_to_words.own.idc_pcl.pretrain.tasks.class_pairs is missing, how often it is drawn",
        ),
        (
            {"dataset__birds_to_words__text__vocabulary": "words.json"},
            "dataset.birds_to_words.text: vocabulary names a file, where nothing is counted",
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
        recipe = config.resolve(own, BIRDS, "idc_pcl")
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
    assert vocabularies.cut(both, None) is both


def test_features_of_cub_are_extracted(prepared_birds, monkeypatch):
    root, out = prepared_birds, "--out store.zarr --provenance p.json"
    pictures = torch.randint(
        256, (4, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
    )
    network = random_backbone("layer3", 1, [pictures])
    command = f"extract_pretraining --dataset cub --records data/pretraining/records/cub {out}"
    set_params(root, **(TINY | {"features__size": 32}))
    with monkeypatch.context() as patched:
        patched.setattr(extraction, "backbone", lambda *_: (network, "a file's"))
        succeed(root, command)
    store = FeatureStore(root / "store.zarr", {"weights": "imagenet", "size": 32})
    assert store.shape == (1024, 2, 2)
    assert len(store.row) == 12
    grids = store.read(list(store.row))
    assert np.abs(grids[0] - grids[-1]).max() > 0
    set_params(root, **(TINY | {"features__weights": "random"}))
    refuse(root, command, "random weights take their statistics from each dataset's own images, and cub goes")
