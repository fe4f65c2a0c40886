"""Backbones by name: their maps, the order of channels, folded batch norms, and statistics of channels."""

from copy import deepcopy

import numpy as np
import pytest
import timm
import torch
from torch import nn
from torchvision.models import resnet101

from models.backbones import backbone, timm_maps
from models.backbones.backbone import MEAN, STD, Backbone, channels, for_inference, load, take_statistics
from tests.backbones import TINY, spread

IMAGES = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
KINDS = [
    ("resnet101", 16, False),
    ("tf_efficientnet_lite0", 16, True),
    (TINY, 16, True),
    ("test_resnet", 32, False),
    ("test_convnext", 16, True),  # without batch norms
    ("densenet121", 16, False),  # half of its norms are before their convolution
]


def made(name, stride, finer=False, standardise=False, seed=1):
    torch.manual_seed(seed)
    return spread(Backbone(name, stride, finer, standardise)).eval()


@pytest.mark.parametrize(("name", "stride", "finer"), KINDS)
def test_the_shape_of_the_grid(name, stride, finer):
    with torch.no_grad():
        grid = made(name, stride, finer)(IMAGES)
    assert grid.shape == (2, channels(name, stride, finer), 64 // stride, 64 // stride)


def test_resnet101_is_torchvisions():
    torch.manual_seed(1)
    whole = spread(resnet101(weights=None)).eval()
    pixels = (IMAGES / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    with torch.no_grad():
        maps = [pixels]
        for _, stage in list(whole.named_children())[:8]:
            maps.append(stage(maps[-1]))
        for stride, wanted in ((16, maps[-2]), (32, maps[-1])):
            found = load(Backbone("resnet101", stride), whole.state_dict())(IMAGES)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_a_model_of_timm_computes_timms_map():
    torch.manual_seed(1)
    whole = spread(timm.create_model(TINY)).eval()
    mean, std = (torch.tensor(whole.pretrained_cfg[key]).view(3, 1, 1) for key in ("mean", "std"))
    backbone = load(Backbone(TINY, 16), whole.state_dict())
    with torch.no_grad():
        wanted = whole.forward_intermediates(
            (IMAGES / 255 - mean) / std, indices=[3], intermediates_only=True
        )
        torch.testing.assert_close(backbone(IMAGES), wanted[0])


def test_the_channels_of_the_finer_map_follow():
    backbone = made(TINY, 16, finer=True)
    plain = load(Backbone(TINY, 16), backbone.network.state_dict())
    with torch.no_grad():
        grid, wanted = backbone(IMAGES), plain(IMAGES)
        pixels = (IMAGES.float() / 255 - backbone.pixel_mean) / backbone.pixel_std
        fine = backbone.network(pixels)[0]  # B x 32 x 8 x 8
    torch.testing.assert_close(grid[:, :48], wanted)
    for channel, row, column in np.ndindex(32, 2, 2):
        own = grid[:, 48 + 4 * channel + 2 * row + column]
        torch.testing.assert_close(own, fine[:, channel, row::2, column::2])


@pytest.mark.parametrize(
    ("name", "stride", "finer", "said"),
    [
        ("test_efficientnett", 16, False, r"timm has no model .*\(near: test_efficientnet"),
        ("qqqqqqqq", 16, False, "timm has no model 'qqqqqqqq'$"),
        ("test_vit", 32, False, r"test_vit has no map of stride 32 \(its strides: 16\)"),
        ("test_vit", 16, True, r"test_vit has no map of stride 8 \(its strides: 16\)"),
    ],
)
def test_unknown_networks_and_strides_are_named(name, stride, finer, said):
    with pytest.raises(ValueError, match=said):
        Backbone(name, stride, finer)


def test_a_transformer_has_a_grid():
    side = timm_maps.describe("test_vit").side or 160
    images = torch.randint(0, 256, (1, 3, side, side), dtype=torch.uint8)
    with torch.no_grad():
        grid = Backbone("test_vit", 16).eval()(images)
    assert grid.shape == (1, channels("test_vit", 16), side // 16, side // 16)


@pytest.mark.parametrize(("name", "stride", "finer"), KINDS)
def test_folding_does_not_change_the_result(name, stride, finer):
    backbone = made(name, stride, finer)
    first = next(backbone.network.parameters()).clone()
    folded = for_inference(backbone, torch.float32)
    with torch.no_grad():
        found, wanted = folded(IMAGES), backbone(IMAGES)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))
    assert wanted.std() > 1e-3
    assert torch.equal(next(backbone.network.parameters()), first)


class Doubtful(nn.Module):
    """Network in which only one of five norms can be folded."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1)
        self.first, self.both, self.twice = (nn.BatchNorm2d(4) for _ in range(3))
        self.scaled = timm.layers.StdConv2d(4, 4, 1)
        self.after_scaled = nn.BatchNorm2d(4)

    def forward(self, x):
        a, b = self.a(x), self.b(x)
        x = self.first(a) + a + self.both(b)
        return self.after_scaled(self.scaled(self.twice(self.twice(x))))


def test_only_norms_that_alone_use_their_convolution_are_folded():
    torch.manual_seed(1)
    network = spread(Doubtful()).eval()
    folded = deepcopy(network)
    assert backbone.fold(folded) == 1  # `both`
    assert isinstance(folded.both, nn.Identity)
    with torch.no_grad():
        x = torch.randn(2, 3, 5, 5)
        torch.testing.assert_close(folded(x), network(x))


class Undecided(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(self.a(x)) if x.sum() > 0 else x


def test_a_network_that_cannot_be_traced_is_unchanged():
    network = Undecided().eval()
    assert backbone.fold(network) is None
    assert isinstance(network.norm, nn.BatchNorm2d)


def test_statistics_are_those_of_all_cells():
    backbone = made(TINY, 16, finer=True, standardise=True)
    with torch.no_grad():
        cells = backbone.raw(IMAGES).double().numpy().transpose(1, 0, 2, 3).reshape(176, -1)
        take_statistics(backbone, [IMAGES[:1], IMAGES[1:]])
        found = backbone(IMAGES)
    np.testing.assert_allclose(backbone.standardise.mean, cells.mean(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(backbone.standardise.deviation, cells.std(1), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.mean((0, 2, 3)), torch.zeros(176), rtol=0, atol=1e-4)
    torch.testing.assert_close(found.std((0, 2, 3), correction=0), torch.ones(176), rtol=0, atol=1e-4)


def test_statistics_of_large_and_of_constant_channels():
    backbone = made(TINY, 16, standardise=True)
    grids = torch.randn(4, 48, 5, 5) + 1000
    grids[:, 7] = 0.1
    backbone.standardise.take(grids)
    found = backbone.standardise(grids)
    np.testing.assert_allclose(found.std((0, 2, 3), correction=0).numpy()[:7], 1, rtol=1e-3)
    assert found[:, 7].abs().max() < 1e-6
