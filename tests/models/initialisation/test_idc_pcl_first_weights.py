"""IDC-PCL's initialisation for few pairs: cells attend to counterparts, words to cells that differ."""

import pytest
import torch

import models
from models.idc_pcl.switches import PclSizes
from models.initialisation.idc_pcl import separate_places
from pipeline.training import optimisers

ROWS, COLUMNS, D, HEADS = 4, 6, 64, 2
CELLS, ROOM = ROWS * COLUMNS, 24
SIZES = PclSizes(12, (ROWS, COLUMNS), 11, 8, D, HEADS, 1, 1, 1, 1)
SETTINGS = {"variant": "paper", "dropout": 0.0, "masked_words": 0.15, "masked_words_captioning": 0.15}
SETTINGS |= {"masked_cells": 0.15, "coef_lr": 1.0, "tau1": 1.0, "tau2": 1.0}


def network(first="counterpart"):
    torch.manual_seed(3)
    return models.build("idc_pcl", SIZES, SETTINGS | {"switches": {"first_weights": first}}).difference


def looks(net, before, after):
    """Return the attention of the pair transformer's first block, T x T, the mean over heads and pairs."""
    x, block = net.pair.norm(torch.cat(net.singles(before, after).chunk(2), 1)), net.pair.blocks[0]
    y = block.norm_1(x)
    return block.attention.map(block.attention.queries(y), block.attention.keys_values(y)[0]).mean(0)


def cells(seed=0):
    """Return cells of different lengths."""
    random = torch.Generator().manual_seed(seed)
    length = 3 * torch.rand(4, CELLS, 1, generator=random)
    return length * torch.randn(4, CELLS, 12, generator=random)


@torch.no_grad()
def test_each_cell_attends_to_its_counterpart():
    at = torch.arange(1, CELLS + 1)  # after [IMG1]
    found = looks(network(), cells(0), cells(1))
    assert found[at, at + CELLS + 1].min() > 0.99
    assert found[at + CELLS + 1, at].min() > 0.99
    assert looks(network("balanced"), cells(0), cells(1))[at, at + CELLS + 1].mean() < 0.1


def test_a_width_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match=r"counterpart needs a width of at least 10, not 8"):
        separate_places((7, 7), 8)


@torch.no_grad()
def test_words_attend_to_the_cell_that_differs():
    net = network()
    before = cells()
    after = before.clone()
    after[:, 5] = 2 * torch.randn(4, 12, generator=torch.Generator().manual_seed(9))
    memory = net(before, after).memory
    block, images = net.cross.blocks[0], net.cross.norm(memory)
    words = net.cross.norm(net.text(torch.full((4, 1), net.mask)))
    keys, _ = block.attention.keys_values(block.norm_1(images))
    found = block.attention.map(block.attention.queries(block.norm_1(words)), keys).mean((0, 1))
    at = 1 + 5
    others = torch.cat([found[1:at], found[at + 1 : CELLS + 1]])
    assert found[at] > 5 * others.mean()
    half = -net.pair.blocks[0].attention.output.weight @ net.pair.blocks[0].attention.value.weight
    share = (images @ half).square().sum(-1) / images.square().sum(-1)
    assert share[:, at].mean() > 0.5 > share[:, at + 1].mean()


@pytest.mark.parametrize("phase", ["pretrain", "captioning"])
def test_layers_before_the_words_have_their_own_learning_rate(phase):
    settings = SETTINGS | {"switches": {}, "coef_lr": 0.25}
    model = models.build("idc_pcl", SIZES, settings, *(["pretrain"] if phase == "pretrain" else []))
    step = {"learning_rate": 0.1, "weight_decay": 0.0}
    slow, others = optimisers.build(model, model.groups, step).param_groups
    assert (slow["lr"], others["lr"]) == (0.025, 0.1)
    net = model.difference
    before_words = [each for part in (net.project, net.single, net.pair) for each in part.parameters()]
    assert {id(each) for each in slow["params"]} == {id(each) for each in before_words}


def test_places_are_saved_so_that_weights_with_other_places_are_refused():
    ours, papers = (network(first).state_dict() for first in ("counterpart", "torch"))
    assert set(ours) - set(papers) == {"places"}
    network().load_state_dict(ours)
    with pytest.raises(RuntimeError, match="Missing key"):
        network().load_state_dict({name: ours[name] for name in papers})
