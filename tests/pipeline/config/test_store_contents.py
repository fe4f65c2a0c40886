"""The specification of a feature store that params.yaml asks for."""

import pytest

from pipeline.config.store_contents import IMPORTED, Spec, spec
from pipeline.io.errors import InputError
from tests import project_params


def asked(weights=None, npy=None, own=None, **changes):
    everything = project_params.settings()
    dataset = everything.of("clevr_change")
    features = dataset.features.model_copy(update={"npy": npy} | (own or {}))
    settings = everything.features.model_copy(update={"weights": weights} | changes)
    return spec(settings, dataset.model_copy(update={"features": features}))


def test_nulls_become_the_datasets_values():
    assert asked() == Spec("resnet101", "imagenet", 16, False, False, "pil_bicubic", 224)
    assert asked(weights="w.pth").weights == "w.pth"
    mine = {"backbone": "resnet18", "stride": 32, "finer": True, "standardise": True}
    assert asked(own=mine) == Spec("resnet18", "imagenet", 32, True, True, "pil_bicubic", 224)
    found = asked(own=mine, backbone="resnet34", stride=16, finer=False)
    assert found == Spec("resnet34", "imagenet", 16, False, True, "pil_bicubic", 224)


def test_imported_features_differ_from_extracted_ones():
    assert asked(npy="folder") == Spec("resnet101", IMPORTED, 16, False, False, IMPORTED, 224)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"own": {"finer": True}}, "features.finer"),
        ({"own": {"standardise": True}}, "features.standardise"),
        ({"weights": "w.pth"}, "features.weights"),
    ],
)
def test_imported_features_cannot_be_changed(changes, key):
    with pytest.raises(InputError, match=key):
        asked(npy="folder", **changes)
