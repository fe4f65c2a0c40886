"""What the parameters demand of a store."""

import pytest

from pipeline.errors import InputError
from pipeline.features.store_contents import IMPORTED, Spec, spec
from tests import shipped


def asked(weights=None, npy=None):
    everything = shipped.settings()
    dataset = everything.of("clevr_change")
    own = dataset.features.model_copy(update={"npy": npy})
    settings = everything.features.model_copy(update={"weights": weights})
    return spec(settings, dataset.model_copy(update={"features": own}))


def test_null_weights_are_the_datasets_own():
    assert asked() == Spec("imagenet", "layer3", "pil_bicubic", 224)
    assert asked(weights="random").weights == "random"


def test_imported_features_are_no_extracted_ones():
    assert asked(npy="folder") == Spec(IMPORTED, "layer3", IMPORTED, 224)


def test_weights_and_a_folder_of_features_exclude_each_other():
    with pytest.raises(InputError, match=r"features\.weights is 'random', but .* imported from 'folder'"):
        asked(weights="random", npy="folder")
