"""Inputs of decode, export and caption that are exchanged, permuted or damaged are refused by name."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
import zarr

from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer
from tests.exchanges import as_json, flip, swap_words
from tests.forged import forge
from tests.running import refuse, succeed
from tests.stage_commands import DECODE, STORE, VOCAB, trained

ZARR = f"{STORE}/zarr.json"


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("trained"), "weights/1")


@pytest.fixture
def copy(once, tmp_path):
    return shutil.copytree(once, tmp_path / "copy")


def overwrite(folder, value):
    zarr.open_array(folder / STORE, path="features", mode="r+")[:] = value


def attribute(name, value):
    return as_json(ZARR, lambda tree: tree["attributes"].__setitem__(name, value))


def other_model(folder):
    """model.yaml calls the weights another model's, of the same tensors; with forged hashes, too."""
    path = folder / "weights/1/model.yaml"
    path.write_text(path.read_text().replace("model: scorer_cbr", "model: rr_cbr", 1))


CHANGES = {
    "words in another order": (as_json(VOCAB, swap_words), VOCAB),
    "a longer longest caption": (as_json(VOCAB, lambda tree: tree.update(longest=99)), VOCAB),
    "keys in another order": (as_json(ZARR, lambda tree: tree["attributes"]["keys"].reverse()), "grid.zarr"),
    "hashes of images in another order": (
        as_json(ZARR, lambda tree: tree["attributes"]["sha256"].reverse()),
        "grid.zarr",
    ),
    "other weights of the backbone": (attribute("weights_id", "sha256:0"), "grid.zarr"),
    "another mean": (attribute("mean", [0, 0, 0]), "grid.zarr"),
    "another precision": (attribute("precision", "bfloat16"), "grid.zarr"),
    "a bit of the weights": (flip("weights/1/weights.safetensors"), "weights.safetensors"),
    "other features, written by Zarr": (lambda folder: overwrite(folder, 1), "grid.zarr"),
    "features that are no numbers": (lambda folder: overwrite(folder, np.nan), "grid.zarr"),
    "another model's name": (other_model, "model.yaml"),
}


@pytest.mark.parametrize(("change", "named"), CHANGES.values(), ids=CHANGES)
def test_decode_refuses(copy, change, named):
    change(copy)
    refuse(copy, DECODE, named)
    assert not (copy / "captions.json").exists()


def test_decode_refuses_a_store_that_was_made_again_in_another_order(copy, once):
    """Its sums are right: the store is another than that of the training, of the same images."""
    store = FeatureStore(once / STORE, {})
    own, keys = dict(store.attributes), store.attributes["keys"]
    for name in ("schema", "shard_bytes", "sums"):
        del own[name]
    writer = Writer(copy / "scratch", len(keys), store.shape)
    writer.write(0, store.read(keys))
    shutil.rmtree(copy / STORE)
    writer.finish(copy / STORE, own | {"keys": keys[::-1]})
    refuse(copy, DECODE, "grid.zarr is not the store that the weights were trained on")


def test_decode_refuses_weights_in_another_models_place(copy):
    place = copy / "data/weights/tabletop/rr_cbr/1"
    shutil.copytree(copy / "weights/1", place)
    command = DECODE.replace("--weights weights/1", "--weights data/weights/tabletop/rr_cbr/1")
    refuse(copy, command, "rr_cbr/1 holds weights of tabletop/scorer_cbr/1")
    refuse(
        copy, "export --weights data/weights/tabletop/rr_cbr/1 --out p", "holds weights of tabletop/scorer"
    )


def test_sound_inputs_are_taken_and_forged_names_are_only_stopped_by_their_place(copy):
    succeed(copy, DECODE)
    other_model(copy)
    forge(copy / "weights/1")
    assert yaml.safe_load((copy / "weights/1/model.yaml").read_text())["recipe"]["model"] == "rr_cbr"
    place = copy / Path("data/weights/tabletop/scorer_cbr/1")
    shutil.copytree(copy / "weights/1", place)
    command = DECODE.replace("--weights weights/1", f"--weights {place}")
    refuse(copy, command, "holds weights of tabletop/rr_cbr/1")
