"""Inputs of decode and export that are exchanged, permuted or damaged are refused by name."""

import shutil

import numpy as np
import pytest
import zarr

from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer
from tests.exchanges import edit_json, flip, set_json, swap_words
from tests.forged import forge
from tests.running import refuse, succeed
from tests.stage_commands import DECODE, STORE, VOCAB

ZARR = f"{STORE}/zarr.json"


def overwrite(value):
    return lambda folder: zarr.open_array(folder / STORE, path="features", mode="r+").__setitem__(..., value)


def rename_model(folder):
    """Give the weights, in model.yaml, the name of a model with the same tensors."""
    path = folder / "weights/1/model.yaml"
    path.write_text(path.read_text().replace("model: scorer_cbr", "model: rr_cbr", 1))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (swap_words(VOCAB), VOCAB),
        (set_json(VOCAB, "longest", value=99), VOCAB),
        (edit_json(ZARR, lambda tree: tree["attributes"]["keys"].reverse()), "grid.zarr"),
        (edit_json(ZARR, lambda tree: tree["attributes"]["sha256"].reverse()), "grid.zarr"),
        (set_json(ZARR, "attributes", "weights_id", value="sha256:0"), "grid.zarr"),
        (set_json(ZARR, "attributes", "mean", value=[0, 0, 0]), "grid.zarr"),
        (set_json(ZARR, "attributes", "precision", value="bfloat16"), "grid.zarr"),
        (flip("weights/1/weights.safetensors"), "weights.safetensors"),
        (overwrite(1), "grid.zarr"),
        (overwrite(np.nan), "grid.zarr"),
        (rename_model, "model.yaml"),
    ],
)
def test_decode_names_a_changed_input(copy, change, named):
    change(copy)
    refuse(copy, DECODE, named)
    assert not (copy / "captions.json").exists()


def test_decode_refuses_a_store_with_the_same_images_in_another_order(copy):
    store = FeatureStore(copy / STORE, {})
    attributes = {k: v for k, v in store.attributes.items() if k not in ("schema", "shard_bytes", "sums")}
    keys = attributes["keys"]
    writer = Writer(copy / "scratch", len(keys), store.shape)
    writer.write(0, store.read(keys))
    shutil.rmtree(copy / STORE)
    writer.finish(copy / STORE, attributes | {"keys": keys[::-1]})
    refuse(copy, DECODE, "grid.zarr")


def test_weights_in_the_folder_of_another_run_are_refused(copy):
    place = "data/weights/tabletop/rr_cbr/1"
    shutil.copytree(copy / "weights/1", copy / place)
    refuse(copy, DECODE.replace("weights/1", place, 1), "rr_cbr/1 holds weights of tabletop/scorer_cbr/1")
    refuse(copy, f"export --weights {place} --out p", "holds weights of tabletop/scorer_cbr/1")
    succeed(copy, DECODE)
    rename_model(copy)
    forge(copy / "weights/1")
    place = "data/weights/tabletop/scorer_cbr/1"
    shutil.copytree(copy / "weights/1", copy / place)
    refuse(copy, DECODE.replace("weights/1", place, 1), "holds weights of tabletop/rr_cbr/1")
