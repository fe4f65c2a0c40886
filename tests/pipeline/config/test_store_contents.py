"""What the parameters demand of a store."""

import pytest

from pipeline.config.store_contents import IMAGENET, IMPORTED, Spec, spec
from pipeline.io.errors import InputError
from tests import project_params


def asked(weights=None, npy=None, own=None, **changes):
    everything = project_params.settings()
    dataset = everything.of("clevr_change")
    features = dataset.features.model_copy(update={"npy": npy} | (own or {}))
    settings = everything.features.model_copy(update={"weights": weights} | changes)
    return spec(settings, dataset.model_copy(update={"features": features}))


def test_what_is_null_is_the_datasets_own():
    assert asked() == Spec("resnet101", "imagenet", 16, False, False, "pil_bicubic", 224)
    assert asked(weights="w.pth").weights == "w.pth"
    mine = {"backbone": "resnet18", "stride": 32, "finer": True, "standardise": True}
    assert asked(own=mine) == Spec("resnet18", "imagenet", 32, True, True, "pil_bicubic", 224)
    found = asked(own=mine, backbone="resnet34", stride=16, finer=False)
    assert found == Spec("resnet34", "imagenet", 16, False, True, "pil_bicubic", 224)


def test_the_embedded_datasets_have_a_network_that_a_package_brings():
    everything = project_params.settings()
    for name in ("tabletop", "tabletop_wide", "tabletop_extreme"):
        found = spec(everything.features, everything.of(name))
        assert (found.backbone, found.weights, found.standardise) == ("tf_efficientnet_lite0", IMAGENET, True)


def test_imported_features_are_no_extracted_ones():
    assert asked(npy="folder") == Spec("resnet101", IMPORTED, 16, False, False, IMPORTED, 224)


@pytest.mark.parametrize("key", ["finer", "standardise"])
def test_imported_features_stay_as_they_are(key):
    with pytest.raises(InputError, match=rf"from 'folder' cannot be changed; set features\.{key}: false"):
        asked(npy="folder", own={key: True})


def test_weights_and_a_folder_of_features_exclude_each_other():
    with pytest.raises(InputError, match=r"features\.weights is 'w\.pth', but .* imported from 'folder'"):
        asked(weights="w.pth", npy="folder")
