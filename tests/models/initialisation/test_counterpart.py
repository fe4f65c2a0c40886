"""First weights by which a block on both images looks at the same cell of the other one."""

import math
from dataclasses import replace

import pytest
import torch

import models
from models.clip4idc.encoders import ClipSizes
from models.common.attention import MultiHeadAttention
from models.initialisation.counterpart_weights import grid_places, look_across, side_of

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
def test_in_half_of_the_directions_what_is_seen_is_subtracted_and_the_side_in_none():
    made, _, side = attention()
    subtracted = -torch.stack([made.output(made.value(x)) for x in torch.eye(D)], 1)  # D x D
    torch.testing.assert_close(subtracted @ subtracted, subtracted, atol=1e-5, rtol=0)  # it projects
    torch.testing.assert_close(subtracted, subtracted.T, atol=1e-5, rtol=0)
    assert subtracted.trace().item() == pytest.approx(D // 2, abs=1e-3)
    assert (subtracted @ side).abs().max() < 1e-4


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
