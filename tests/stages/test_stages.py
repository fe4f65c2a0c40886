"""The stages as DVC runs them: from images to captions, and every mistake as one line and exit code 2."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import zarr

from pipeline.decoding import attention_maps
from pipeline.features.store import FeatureStore
from pipeline.tabletop.dataset_card import write_card
from tests.running import ROOT, refuse, set_params, succeed
from tests.synthetic import make_clevr_change

PAIRS, IMAGES = "data/pairs/tabletop.jsonl", "data/images/tabletop.jsonl"
STORE, VOCAB, RECIPE = (
    "data/features/tabletop/grid.zarr",
    "data/vocab/tabletop.json",
    "data/recipes/recipe.yaml",
)
CARD, MANIFEST = "data/cards/tabletop.yaml", "data/pairs/tabletop.manifest.json"
PREPARE = f"prepare --dataset tabletop --card {CARD} --pairs {PAIRS} --images {IMAGES} --manifest {MANIFEST}"
EXTRACT = (
    f"extract --dataset tabletop --pairs {PAIRS} --images {IMAGES} --out {STORE} --provenance extract.json"
)
MAKE_VOCAB = f"vocab --dataset tabletop --pairs {PAIRS} --out {VOCAB}"
MAKE_RECIPE = f"recipe --dataset tabletop --model scorer_cbr --out {RECIPE}"
INPUTS = f"--pairs {PAIRS} --vocab {VOCAB} --features data/features/tabletop"
DECODE = f"decode --weights weights/1 {INPUTS} --out captions.json --attention attention.npz"


def train_with(seed, to):
    outputs = f"--weights {to} --curves curves/{to} --provenance p.json"
    return f"train --recipe {RECIPE} --seed {seed} {INPUTS} {outputs}"


@pytest.fixture
def raw(tmp_path):
    """A folder with params.yaml and raw images."""
    write_card(tmp_path / CARD, make_clevr_change(tmp_path / "data/raw/tabletop", scenes=10), "tabletop", [])
    set_params(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which every stage up to training has run."""
    folder = tmp_path_factory.mktemp("trained")
    write_card(folder / CARD, make_clevr_change(folder / "data/raw/tabletop", scenes=20), "tabletop", [])
    set_params(folder)
    for command in (PREPARE, EXTRACT, MAKE_VOCAB, MAKE_RECIPE, train_with(1, "weights/1")):
        succeed(folder, command)
    return folder


@pytest.fixture
def copy(trained, tmp_path):
    """A copy of `trained`, to damage."""
    return shutil.copytree(trained, tmp_path / "copy")


def test_captions_in_pair_order_in_the_coco_form(trained):
    succeed(trained, DECODE)
    captions = json.loads((trained / "captions.json").read_text())
    pairs = [json.loads(line) for line in (trained / PAIRS).read_text().splitlines()]
    assert [c["image_id"] for c in captions] == [p["pair_id"] for p in pairs if p["split"] == "test"]
    assert all(isinstance(c["caption"], str) and c["caption"] for c in captions)


@pytest.mark.parametrize("beam", [1, 3])
def test_ablations_from_recipe_to_attention(copy, beam):
    """Training, a beam and the maps, where the decoder attends to each image by itself."""
    switches = {"mtm": "max_pool", "fusion": "respective", "contrast": "distance"}
    chosen = {"model__scorer_cbr__switches": switches, "decode__beam": beam, "report__gallery": 3}
    set_params(copy, **chosen, dataset__tabletop__sizes__heads=8, dataset__tabletop__sizes__layers=3)
    shutil.rmtree(copy / "weights")
    for command in (MAKE_RECIPE, train_with(1, "weights/1"), DECODE):
        succeed(copy, command)
    assert (copy / "curves/weights/1/loss.csv").read_text().startswith("iteration,cap,cv,cbr\n")
    found = attention_maps.read(copy / "attention.npz")  # which refuses a map that does not sum to 1
    assert sum(each.alignment is not None for each in found.values()) == 3
    assert all(each.maps.shape == (len(each.words), 1, 4, 4) for each in found.values())


def test_attention_stands_beside_the_captions(trained):
    set_params(trained, report__gallery=3)
    succeed(trained, DECODE)
    captions = json.loads((trained / "captions.json").read_text())
    found = attention_maps.read(trained / "attention.npz")
    assert {pair: each.caption for pair, each in found.items()} == {
        c["image_id"]: c["caption"] for c in captions
    }
    aligned = [each.alignment for each in found.values() if each.alignment is not None]
    assert [alignment.shape for alignment in aligned] == [(16, 16)] * 3
    for alignment in aligned:
        np.testing.assert_allclose(alignment.sum(1, dtype=np.float64), 1, atol=0.005)
    set_params(trained)


def test_a_split_without_pairs_is_not_decoded(copy):
    lines = (copy / PAIRS).read_text().splitlines(keepends=True)
    (copy / PAIRS).write_text("".join(line for line in lines if '"split": "val"' not in line))
    refuse(copy, f"{DECODE} --split val".replace("captions", "new"), "has no pair of the split val")
    assert not (copy / "new.json").exists()


def test_one_seed_one_result_another_seed_another(trained):
    succeed(trained, train_with(1, "weights/again"))
    succeed(trained, train_with(2, "weights/other"))
    one, again, other = (
        (trained / f"weights/{name}/weights.safetensors").read_bytes() for name in ("1", "again", "other")
    )
    assert one == again != other
    succeed(trained, DECODE)
    succeed(
        trained,
        DECODE.replace("weights/1", "weights/again")
        .replace("captions", "same")
        .replace("attention.", "same."),
    )
    assert (trained / "captions.json").read_bytes() == (trained / "same.json").read_bytes()
    assert (trained / "attention.npz").read_bytes() == (trained / "same.npz").read_bytes()
    assert (trained / "curves/weights/1/loss.csv").read_text().startswith("iteration,cap,cv,cbr\n")


def test_nothing_is_left_in_the_scratch_folder(trained):
    assert not any(trained.rglob("*.scratch"))


def test_plain_zarr_reads_what_training_reads(trained):
    store = FeatureStore(trained / STORE, {})
    array = zarr.open_array(trained / STORE, path="features", mode="r")
    assert array.dtype == "float16"
    for row, key in enumerate(store.attributes["keys"]):
        assert (array[row] == store.read([key])[0]).all()


def test_provenance_says_how_it_was_made(trained):
    record = json.loads((trained / "extract.json").read_text())
    assert record["images"] == 60
    assert record["versions"]["torch"]


def test_as_a_process_of_its_own(raw):
    """As DVC runs it: exit codes 0 and 2, one line, no traceback."""

    def process():
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", *f"stages.{PREPARE}".split()],
            cwd=raw,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert process().returncode == 0
    set_params(raw, train__epochs=3)
    done = process()
    assert done.returncode == 2
    assert done.stderr == "error: params.yaml: unknown key train.epochs; remove it or mend its spelling\n"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train__epochs": 3}, "unknown key train.epochs"),
        ({"train__batch": "4"}, "train.batch"),
        ({"datasets": ["nowhere"]}, "datasets names 'nowhere'"),
        ({"models": ["scorrer"]}, "models names 'scorrer'"),
        ({"dataset__tabletop__prepare__reader": "clever"}, "unknown reader 'clever'"),
        ({"dataset__tabletop__prepare__root": "data/raw/nowhere"}, "data/raw/nowhere is missing"),
    ],
)
def test_bad_parameters(raw, changes, said):
    set_params(raw, **changes)
    refuse(raw, PREPARE, said)
    assert not (raw / "data/pairs").exists()


def test_truth_cannot_select_where_no_scenes_are_known(copy):
    set_params(copy, dataset__tabletop__train__select="truth")
    succeed(copy, MAKE_RECIPE)
    refuse(copy, train_with(2, "weights/2"), "train.select: truth needs scenes")
    assert not (copy / "weights/2").exists()


def test_unknown_names_on_the_command_line(raw):
    refuse(raw, PREPARE.replace("--dataset tabletop", "--dataset nowhere"), "unknown dataset 'nowhere'")
    refuse(raw, MAKE_RECIPE.replace("scorer_cbr", "scorrer"), "unknown model 'scorrer'")


def test_missing_and_truncated_images(raw):
    folder = raw / "data/raw/tabletop"
    (folder / "images/CLEVR_default_000003.png").unlink()
    picture = folder / "sc_images/CLEVR_semantic_000005.png"
    picture.write_bytes(picture.read_bytes()[:500])
    said = refuse(raw, PREPARE, "2 problem(s)")
    assert "CLEVR_default_000003.png" in said
    assert "CLEVR_semantic_000005.png" in said
    assert not (raw / "data/pairs").exists()


def edit(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_annotations_that_disagree(raw):
    folder = raw / "data/raw/tabletop"
    original = (folder / "change_captions.json").read_text()
    edit(folder / "change_captions.json", lambda c: c.update({"CLEVR_default_000099.png": ["a"]}))
    refuse(raw, PREPARE, "change_captions.json has scene 99, which is in no split")
    (folder / "change_captions.json").write_text(original)
    edit(folder / "change_captions.json", lambda c: c.update({"CLEVR_default_000004.png": []}))
    refuse(raw, PREPARE, "CLEVR_default_000004.png: has no caption")
    (folder / "change_captions.json").write_text(original)
    edit(folder / "splits.json", lambda s: s["train"].append(77))
    refuse(raw, PREPARE, "splits.json names scene 77")


def test_an_image_that_changed_after_it_was_prepared(raw):
    succeed(raw, PREPARE)
    folder = raw / "data/raw/tabletop/images"
    shutil.copy(folder / "CLEVR_default_000001.png", folder / "CLEVR_default_000000.png")
    refuse(raw, EXTRACT, "CLEVR_default_000000.png changed since it was prepared")
    assert not (raw / STORE).exists()


def test_a_backbone_that_is_none_is_refused_in_a_line(raw):
    succeed(raw, PREPARE)
    set_params(raw, features__backbone="efficientnet_light0")
    refuse(raw, EXTRACT, "features.backbone: timm has no model 'efficientnet_light0' (near: ")
    set_params(raw, features__backbone="test_vit", features__stride=32)
    refuse(raw, EXTRACT, "test_vit has no map of stride 32 (its strides: 16)")
    assert not (raw / STORE).exists()


def test_a_store_of_another_stride(copy):
    set_params(copy, features__stride=32)
    succeed(copy, MAKE_RECIPE)
    refuse(copy, train_with(1, "weights/new"), "its stride is 16, params.yaml wants 32")
    assert not (copy / "weights/new").exists()


OTHERS = {
    "dataset__tabletop__features__npy": "npy",
    "dataset__tabletop__features__backbone": "resnet101",
    "dataset__tabletop__features__finer": False,
    "dataset__tabletop__features__standardise": False,
}


def leave_npy(folder):
    """Features 1024 x 4 x 4 of every image, as a released extractor leaves them."""
    for row, line in enumerate((folder / IMAGES).read_text().splitlines()):
        file = folder / "npy" / f"{json.loads(line)['name'].replace('images/', 'features/')}.npy"
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, np.random.default_rng(row).standard_normal((1024, 4, 4)).astype(np.float32))


def test_features_made_elsewhere_are_imported_and_are_not_those_made_here(copy):
    leave_npy(copy)
    set_params(copy, **OTHERS)
    succeed(copy, MAKE_RECIPE)
    refuse(
        copy,
        train_with(1, "weights/new"),
        "its backbone is 'tf_efficientnet_lite0', params.yaml wants 'resnet101'",
    )
    succeed(copy, EXTRACT)
    store = FeatureStore(copy / STORE, {"precision": "float32", "resize": "imported from .npy files"})
    expected = np.random.default_rng(7).standard_normal((1024, 4, 4)).astype(np.float32)
    found = store.read([store.attributes["keys"][7]])[0]
    np.testing.assert_array_equal(found, expected.astype(np.float16))
    assert not any(copy.rglob("*.scratch"))
    refuse(copy, DECODE, "its backbone is 'resnet101', params.yaml wants 'tf_efficientnet_lite0'")
    succeed(copy, train_with(1, "weights/new"))
    succeed(copy, DECODE.replace("weights/1", "weights/new"))


def test_features_made_elsewhere_that_are_missing_or_of_another_stride(copy):
    leave_npy(copy)
    shutil.rmtree(copy / STORE)
    (copy / "npy/sc_features/CLEVR_semantic_000003.png.npy").unlink()
    set_params(copy, **OTHERS)
    refuse(copy, EXTRACT, "sc_images/CLEVR_semantic_000003.png.npy is missing")
    leave_npy(copy)
    set_params(copy, **OTHERS, features__stride=32)
    refuse(copy, EXTRACT, "60 problem(s) (the first 20 of 60)")
    set_params(copy, **OTHERS, features__weights="w.pth")
    refuse(copy, EXTRACT, "set one of features.weights and features.npy to null")
    assert not (copy / STORE).exists()


def test_a_half_deleted_shard(copy):
    shard = copy / STORE / "features/c/0/0/0/0"
    shard.write_bytes(shard.read_bytes()[:1000])
    refuse(copy, DECODE, "features/c/0/0/0/0 is missing or shorter than its")
    shard.unlink()
    refuse(copy, train_with(1, "weights/new"), "features/c/0/0/0/0 is missing or shorter")
    assert not (copy / "weights/new").exists()


def test_weights_that_are_damaged_or_of_another_vocabulary(copy):
    vocabulary = json.loads((copy / VOCAB).read_text())
    vocabulary["ids"]["zebra"] = len(vocabulary["ids"])
    (copy / VOCAB).write_text(json.dumps(vocabulary))
    refuse(copy, DECODE, "the weights belong to a vocabulary of")
    file = copy / "weights/1/weights.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    refuse(copy, DECODE, "weights.safetensors does not load")


def test_no_java(copy, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    refuse(copy, train_with(1, "weights/new"), "JAVA_HOME")
    assert not (copy / "weights/new").exists()
