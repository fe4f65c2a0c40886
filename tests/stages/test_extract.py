"""The stage extract: changed images, backbones, and imported features."""

import json
import shutil

import numpy as np

from pipeline.features.store import FeatureStore
from tests.backbones import TINY, write_tiny
from tests.running import refuse, set_params, succeed
from tests.stage_commands import DECODE, EXTRACT, IMAGES, MAKE_RECIPE, PREPARE, STORE, train_with


def test_an_image_that_changed_after_it_was_prepared(raw):
    succeed(raw, PREPARE)
    folder = raw / "data/raw/tabletop/images"
    shutil.copy(folder / "CLEVR_default_000001.png", folder / "CLEVR_default_000000.png")
    refuse(raw, EXTRACT, "CLEVR_default_000000.png changed since it was prepared")
    assert not (raw / STORE).exists()


def test_a_backbone_that_cannot_be_traced_gives_a_warning(raw):
    succeed(raw, PREPARE)
    write_tiny(raw / "w.safetensors", name="efficientvit_b0")
    chosen = {"features__weights": "w.safetensors", "features__stride": 16, "features__finer": False}
    set_params(raw, **chosen, features__backbone="efficientvit_b0")
    assert "warning: features.backbone: torch.fx cannot trace" in succeed(raw, EXTRACT).stderr
    write_tiny(raw / "w.safetensors")
    set_params(raw, **chosen, features__backbone=TINY)
    assert "warning" not in succeed(raw, EXTRACT).stderr


OTHERS = {
    "dataset__tabletop__features__npy": "npy",
    "dataset__tabletop__features__backbone": "resnet101",
    "dataset__tabletop__features__finer": False,
    "dataset__tabletop__features__standardise": False,
}


def leave_npy(folder):
    """Write features of every image, (1024, 4, 4), as released extractors do."""
    for row, line in enumerate((folder / IMAGES).read_text().splitlines()):
        file = folder / "npy" / f"{json.loads(line)['name'].replace('images/', 'features/')}.npy"
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, np.random.default_rng(row).standard_normal((1024, 4, 4)).astype(np.float32))


def test_imported_features_are_not_mistaken_for_extracted_ones(copy):
    leave_npy(copy)
    set_params(copy, **OTHERS)
    succeed(copy, MAKE_RECIPE)
    refuse(copy, train_with(1, "weights/new"), "its backbone is 'tf_efficientnet_lite0'")
    succeed(copy, EXTRACT)
    store = FeatureStore(copy / STORE, {"precision": "float32", "resize": "imported from .npy files"})
    expected = np.random.default_rng(7).standard_normal((1024, 4, 4)).astype(np.float32)
    found = store.read([store.attributes["keys"][7]])[0]
    np.testing.assert_array_equal(found, expected.astype(np.float16))
    assert not any(copy.rglob("*.scratch"))
    refuse(copy, DECODE, "its backbone is 'resnet101'")
    succeed(copy, train_with(1, "weights/new"))
    succeed(copy, DECODE.replace("weights/1", "weights/new"))
