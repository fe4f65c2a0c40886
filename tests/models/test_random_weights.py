"""Random weights: their filters by loops, what they let through, and the blocks that are left out."""

import math

import pytest
import torch
from torch import nn
from torchvision.models import resnet101
from torchvision.models.resnet import Bottleneck

from models.backbone import Backbone, calibrate, for_inference, random_backbone, untrained_backbone


def scenes(number, size=64, seed=0):
    """Gray floors with three coloured squares each, uint8."""
    random = torch.Generator().manual_seed(seed)
    images = torch.full((number, 3, size, size), 120, dtype=torch.uint8)
    for image in images:
        for _ in range(3):
            y, x = torch.randint(0, size - 20, (2,), generator=random).tolist()
            colour = torch.randint(0, 255, (3, 1, 1), generator=random, dtype=torch.uint8)
            image[:, y : y + 16, x : x + 16] = colour
    return images


@pytest.fixture(scope="module")
def blocks():
    return [part for part in untrained_backbone("layer4", 3).modules() if isinstance(part, Bottleneck)]


@pytest.fixture(scope="module")
def plain():
    """Torchvision's own first weights of the same seed."""
    torch.manual_seed(3)
    return resnet101(weights=None)


def test_the_first_filters_by_loops(plain):
    found = untrained_backbone("layer3", 3).stages.conv1.weight
    given = plain.conv1.weight.detach()
    reach = range(-3, 4)
    weight = {(i, j): math.exp(-(i * i + j * j) / (2 * 1.5**2)) for i in reach for j in reach}
    total = sum(weight.values())
    for filter_, y, x in ((0, 0, 0), (5, 3, 3), (63, 6, 2)):
        smooth = [
            sum(
                weight[i, j] / total * given[filter_, colour, y + i, x + j].item()
                for i in reach
                for j in reach
                if 0 <= y + i < 7 and 0 <= x + j < 7
            )
            for colour in range(3)
        ]
        brightness = sum(smooth) / 3
        expected = torch.tensor([brightness + 2 * (value - brightness) for value in smooth])
        torch.testing.assert_close(found[filter_, :, y, x].detach(), expected, atol=1e-6, rtol=1e-4)


def test_blocks_that_halve_carry_all_blurred_and_the_others_nothing(blocks, plain):
    assert len(blocks) == 33
    halving = [block for block in blocks if block.stride == 2]
    assert len(halving) == 3
    for block in blocks:
        assert block.bn3.weight.unique().tolist() == [float(block in halving)]
        if block.downsample is not None:
            assert block.downsample[1].weight.unique().tolist() == [float(block not in halving)]
    given = plain.layer2[0].conv2.weight.detach()
    found = halving[0].conv2.weight.detach()
    for out, in_, y, x in ((0, 0, 1, 1), (7, 9, 0, 0), (127, 3, 2, 1)):
        tap = (1, 2, 1)[y] * (1, 2, 1)[x] / 16
        assert found[out, in_, y, x].item() == pytest.approx(given[out, in_].sum().item() * tap, abs=1e-6)


def test_a_moved_camera_changes_less_than_with_plain_weights():
    """Two pixels, an eighth of a cell, against pictures of other scenes."""

    def moved(network):
        with torch.no_grad():
            here, there = network(images[:, :, 2:, 2:]), network(images[:, :, :-2, :-2])
            return ((here - there).square().mean() / (here - here.roll(1, 0)).square().mean()).item()

    images = scenes(8, 66)
    torch.manual_seed(1)
    ours = moved(random_backbone("layer3", 1, [scenes(16, seed=1)]))
    theirs = moved(calibrate(Backbone("layer3"), [scenes(16, seed=1)]))
    assert ours < 0.5 * theirs


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_blocks_that_add_nothing_are_left_out_and_nothing_changes(dtype):
    whole = random_backbone("layer3", 1, [scenes(4)])
    fast = for_inference(whole, dtype)
    with torch.no_grad():
        # a gain too small to move any sum: the same numbers, but every block is there
        slow = for_inference(_with_gain(whole, 1e-30), dtype)
        assert torch.equal(fast(scenes(2)), slow(scenes(2)))
    assert [len(_blocks(network)) for network in (fast, slow)] == [3, 30]
    assert len(_blocks(for_inference(_with_gain(whole, 0.5), dtype))) == 30


def _with_gain(network, gain):
    torch.manual_seed(0)
    copy = Backbone("layer3")
    copy.stages.add_module("standardise", nn.BatchNorm2d(1024, affine=False))
    copy.load_state_dict(network.state_dict())
    for block in _blocks(copy):
        if block.downsample is None:
            nn.init.constant_(block.bn3.weight, gain)
    return copy


def _blocks(network):
    return [part for part in network.modules() if isinstance(part, Bottleneck)]
