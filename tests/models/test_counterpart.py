"""First weights by which a block on both images looks at the same cell of the other one."""

import math
from dataclasses import replace

import pytest
import torch

import models
from models.attention import MultiHeadAttention
from models.clip4idc.encoders import ClipSizes
from models.counterpart_weights import CALM, LOUD, grid_places, look_across, raise_within, side_of
from models.idc_pcl.network import PclSizes
from pipeline.training import optimisers

ROWS, COLUMNS, D, HEADS = 4, 6, 64, 2
CELLS = ROWS * COLUMNS


def attention(seed=0, look=True, places=None):
    torch.manual_seed(seed)
    made, side = MultiHeadAttention(D, HEADS), side_of(D)
    places = grid_places(ROWS, COLUMNS, D) if places is None else places
    if look:
        look_across(made, places, side, 8.0)
    return made, places, side


def weights(made, tokens):
    """softmax(q_i k_j^T / sqrt(d)), the mean of the heads, by loops: T x T."""
    d, T = D // HEADS, len(tokens)
    found = torch.zeros(T, T)
    for head in range(HEADS):
        rows = slice(head * d, (head + 1) * d)
        q = [made.query.weight[rows] @ x + made.query.bias[rows] for x in tokens]
        k = [made.key.weight[rows] @ x + made.key.bias[rows] for x in tokens]
        for i in range(T):
            scores = torch.stack([q[i] @ k[j] / math.sqrt(d) for j in range(T)])
            found[i] += scores.softmax(0) / HEADS
    return found


@torch.no_grad()
def counterpart(made, places, side, noise=0.0):
    """Each token's weight on its counterpart, 2N, of tokens that are their place, their image and noise."""
    tokens = torch.cat([places + side, places - side])
    tokens = tokens + noise * torch.randn(tokens.shape, generator=torch.Generator().manual_seed(1))
    found = weights(made, tokens)
    return found[torch.arange(2 * CELLS), (torch.arange(2 * CELLS) + CELLS) % (2 * CELLS)]


def test_each_cell_looks_at_the_same_cell_of_the_other_image():
    assert counterpart(*attention()).min() > 0.8
    assert counterpart(*attention(), noise=0.3).mean() > 0.5
    assert counterpart(*attention(look=False)).mean() < 3 / (
        2 * CELLS
    )  # as wide as everything: 1 / (2 CELLS)


@torch.no_grad()
def test_each_head_sees_all_of_the_places():
    """16 wide heads have room for the 8 directions in which 4 x 6 places differ: none sees some of them."""
    made, places, side = MultiHeadAttention(D, 4), grid_places(ROWS, COLUMNS, D), side_of(D)
    look_across(made, places, side, 8.0)
    before, after = (places + side)[None], (places - side)[None]
    logits = made.queries(before) @ made.keys_values(after)[0].transpose(-1, -2) / math.sqrt(D // 4)
    assert logits.std() > 1
    torch.testing.assert_close(logits, logits[:, :1].expand_as(logits), atol=1e-3, rtol=0)


def test_without_its_side_it_looks_at_both_images_alike():
    made, places, side = attention()
    assert counterpart(made, places, 0 * side).max() < 0.55


@torch.no_grad()
def test_in_half_of_the_directions_what_is_seen_is_subtracted_and_the_side_in_none():
    made, _, side = attention()
    subtracted = -torch.stack([made.output(made.value(x)) for x in torch.eye(D)], 1)  # D x D
    torch.testing.assert_close(subtracted @ subtracted, subtracted, atol=1e-5, rtol=0)  # it projects
    torch.testing.assert_close(subtracted, subtracted.T, atol=1e-5, rtol=0)
    assert subtracted.trace().item() == pytest.approx(D // 2, abs=1e-3)
    assert (subtracted @ side).abs().max() < 1e-4


@torch.no_grad()
def test_what_is_in_the_half_is_raised_and_the_rest_stays_small():
    """By loops over its directions; the channels that this leaves begin calm, and none of them is dead."""
    torch.manual_seed(0)
    half = torch.linalg.qr(torch.randn(D, D // 2)).Q
    block, as_it_was = (
        torch.nn.Sequential(torch.nn.Linear(D, 4 * D), torch.nn.ReLU(), torch.nn.Linear(4 * D, D))
        for _ in range(2)
    )
    as_it_was.load_state_dict(block.state_dict())
    raise_within(half, block)
    x = torch.randn(D)
    wanted = CALM * as_it_was[2].bias
    for direction in half.T:
        wanted = wanted + LOUD * (direction @ x) * direction
    shown = as_it_was[0](x).relu()
    for channel in range(D, 4 * D):
        wanted = wanted + CALM * shown[channel] * as_it_was[2].weight[:, channel]
    torch.testing.assert_close(block(x), wanted, atol=1e-4, rtol=0)
    assert (block[2].weight.norm(dim=0) > 0).all()


def test_directions_in_which_places_hardly_differ_are_left_out():
    """Made as long as the others, they would let what else is in a token decide."""
    faint = grid_places(ROWS, COLUMNS, D)
    faint[:, 40:] = 1e-6 * torch.randn(CELLS, 24)
    longest = [made.query.weight.abs().max() for made, _, _ in (attention(places=faint), attention())]
    assert longest[0] < 10 * longest[1]


def test_another_seed_gives_other_weights_that_look_alike():
    one, again, other = (attention(seed)[0].query.weight for seed in (0, 0, 1))
    assert one.equal(again)
    assert not one.equal(other)


def test_places_are_told_apart_and_a_width_that_cannot_is_refused():
    places = grid_places(ROWS, COLUMNS, D)
    for cell in range(CELLS):
        row, column = divmod(cell, COLUMNS)
        for k in (0, D // 4 - 1):
            frequency = math.pi * (k + 0.5) / (D // 4)
            wanted = [f(frequency * at) for at in (row, column) for f in (math.sin, math.cos)]
            assert places[cell, k :: D // 4].tolist() == pytest.approx(wanted, abs=1e-5)
    assert torch.cdist(places, places).fill_diagonal_(9).min() > 2.5
    with pytest.raises(ValueError, match=r"a width that is a multiple of 4, not 66"):
        grid_places(ROWS, COLUMNS, 66)


CLIP = ClipSizes(3, (64, 96), 30, 8, 16, D, HEADS, 1, 2, 16, 2, 1, 10, 16, 2, 1)
CLIP_SETTINGS = {"variant": "paper", "dropout": 0.0, "coef_lr": 1.0, "temperature": 0.07}
PCL = PclSizes(12, (ROWS, COLUMNS), 11, 8, D, HEADS, 1, 1, 1, 1)
PCL_SETTINGS = {"variant": "paper", "dropout": 0.0, "masked_words": 0.15, "masked_words_captioning": 0.15}
PCL_SETTINGS |= {"masked_cells": 0.15, "coef_lr": 1.0, "tau1": 1.0, "tau2": 1.0}


def of_clip(first):
    """Where CLIP4IDC looks in its first joint block, untrained, on random pixels."""
    switches = {"patches": "convolutions", "first_weights": first}
    model = models.build("clip4idc", CLIP, CLIP_SETTINGS | {"switches": switches}, "adapt")
    before, after = model.encoding(torch.randint(0, 256, (8, 3, 64, 96)).float()).chunk(2)
    block = model.inter.blocks["1"]
    return block.looks(model.inter.joined(before, after)).mean(0)


def of_pcl(first):
    """IDC-PCL's pair transformer, likewise."""
    model = models.build("idc_pcl", PCL, PCL_SETTINGS | {"switches": {"first_weights": first}})
    net = model.difference
    singles = net.singles(torch.randn(4, CELLS, 12), torch.randn(4, CELLS, 12))
    x, block = net.pair.norm(torch.cat(singles.chunk(2), 1)), net.pair.each()[0]
    y = block.norm_1(x)
    return block.attention.map(block.attention.queries(y), block.attention.keys_values(y)[0]).mean(0)


@pytest.mark.parametrize(("looks", "plain"), [(of_clip, "clip"), (of_pcl, "balanced")])
@torch.no_grad()
def test_untrained_networks_compare(looks, plain):
    torch.manual_seed(3)
    cells = torch.arange(1, CELLS + 1)  # behind the class token, or the mark
    asked, other = looks("counterpart"), looks(plain)
    assert asked[cells, cells + CELLS + 1].mean() > 0.4
    assert other[cells, cells + CELLS + 1].mean() < 0.1


@torch.no_grad()
def test_no_cell_looks_at_the_other_images_mark_instead():
    """A mark has no place: with a side, which the layer norm makes long, it would outdo the counterpart."""
    torch.manual_seed(3)
    assert of_pcl("counterpart")[1 : CELLS + 1, CELLS + 1].mean() < 0.02


@pytest.mark.parametrize("raised", [True, False])
@torch.no_grad()
def test_what_differs_is_most_of_what_the_words_see_of_a_cell(raised):
    """Its share of V~ (squares) in a cell of which the after image shows another thing; or without it."""
    torch.manual_seed(3)
    model = models.build("idc_pcl", PCL, PCL_SETTINGS | {"switches": {"first_weights": "counterpart"}})
    net = model.difference
    block = net.pair.each()[0]
    if not raised:
        block.feed_forward[-1].weight.zero_()
    before = torch.randn(4, CELLS, 12)
    after = before.clone()
    after[:, 5] = torch.randn(4, 12)
    seen = net(before, after).memory.unflatten(1, (2, -1))[:, :, 1:]  # B x 2 x N x D
    half = -block.attention.output.weight @ block.attention.value.weight  # it projects
    share = (seen @ half).square().sum(-1) / seen.square().sum(-1)
    assert (share[:, :, 5].mean() > 0.7) == raised


@pytest.mark.parametrize("phase", ["pretrain", "captioning"])
def test_what_stands_before_the_words_learns_at_its_own_rate(phase):
    """At the words' W saturates sigma, and comparing is unlearned (docs/methods.md, "IDC-PCL")."""
    settings = PCL_SETTINGS | {"switches": {}, "coef_lr": 0.25}
    model = models.build("idc_pcl", PCL, settings, *(["pretrain"] if phase == "pretrain" else []))
    step = {"learning_rate": 0.1, "weight_decay": 0.0}
    slow, others = optimisers.build(model, model.groups, step).param_groups
    assert (slow["lr"], others["lr"]) == (0.025, 0.1)
    net = model.difference
    before_words = [each for part in (net.project, net.single, net.pair) for each in part.parameters()]
    assert {id(each) for each in slow["params"]} == {id(each) for each in before_words}


@pytest.mark.parametrize(("first", "deviation"), [("clip", 0.02), ("counterpart", D**-0.5)])
def test_the_captioners_maps_are_as_large_as_their_width_asks(first, deviation):
    """CLIP4IDC's 0.02 is for a width of 512."""
    switches = {"patches": "convolutions", "first_weights": first}
    model = models.build("clip4idc", replace(CLIP, joint=D), CLIP_SETTINGS | {"switches": switches})
    layers = [*model.difference.memories.layers, *model.decoder.layers]
    attentions = [getattr(layer, "self_attention", None) or layer.attention for layer in layers]
    maps = [each.weight for one in attentions for each in (one.query, one.key, one.value)]
    assert len(maps) == 6
    assert [each.std().item() for each in maps] == pytest.approx([deviation] * len(maps), rel=0.1)
