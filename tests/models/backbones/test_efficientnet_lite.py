"""EfficientNet-Lite against timm's: the same description, names, maps, gradients and folded norms."""

from copy import deepcopy

import pytest
import timm
import torch

from models.backbones import backbone, efficientnet_lite, timm_maps
from models.backbones.efficientnet_lite import FACTORS
from tests.backbones import spread


@pytest.mark.parametrize("name", FACTORS)
def test_description_and_names_are_timms(name):
    assert efficientnet_lite.describe(name) == timm_maps.describe(name)
    with torch.device("meta"):
        assert efficientnet_lite.tensor_names(name) == list(timm.create_model(name).state_dict())


# the others have factors of channels and blocks between these
@pytest.mark.parametrize("name", ["tf_efficientnet_lite0", "tf_efficientnet_lite4"])
@pytest.mark.parametrize("strides", [(8, 16), (2, 4, 8, 16, 32)])
def test_maps_are_timms_to_the_bit(name, strides):
    torch.manual_seed(1)
    theirs = spread(timm_maps.cut(name, strides)).eval()
    ours = efficientnet_lite.cut(name, strides).eval()
    ours.load_state_dict(theirs.state_dict())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    images = torch.randn(2, 3, 75, 98)  # sides that the strides do not divide
    networks = [(ours, theirs), (deepcopy(ours), deepcopy(theirs))]
    assert backbone.fold(networks[1][0]) == backbone.fold(networks[1][1]) > 0
    with torch.no_grad():
        for mine, original in networks:
            for one, other in zip(mine(images), original(images), strict=True):
                assert torch.equal(one, other)


def test_gradients_are_timms_to_the_bit():
    name = "tf_efficientnet_lite0"
    torch.manual_seed(1)
    theirs, ours = spread(timm_maps.cut(name, (32,))).train(), efficientnet_lite.cut(name, (32,)).train()
    ours.load_state_dict(theirs.state_dict())
    images = torch.randn(2, 3, 64, 64)
    for network in (ours, theirs):
        network(images)[0].square().sum().backward()
    for mine, original in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine.grad, original.grad)
