"""Initial weights with which a block on both images attends to the same cell of the other image."""

import math

import pytest
import torch

from models.common.attention import MultiHeadAttention
from models.initialisation.counterpart_weights import grid_places, random_side, subtract_counterpart
from tests.reference.loops import maps_of

ROWS, COLUMNS, D, HEADS = 4, 6, 64, 2
CELLS = ROWS * COLUMNS


def attention(look=True):
    torch.manual_seed(0)
    made, side, places = MultiHeadAttention(D, HEADS), random_side(D), grid_places(ROWS, COLUMNS, D)
    if look:
        subtract_counterpart(made, places, side)
    return made, places, side


@torch.no_grad()
def counterpart(made, places, side, noise=0.0):
    """Return each token's attention to its counterpart, 2N; a token is its place, its image and noise."""
    tokens = torch.cat([places + side, places - side])
    tokens = tokens + noise * torch.randn(tokens.shape, generator=torch.Generator().manual_seed(1))
    found = maps_of(made.query(tokens), made.key(tokens), HEADS)
    return found[torch.arange(2 * CELLS), (torch.arange(2 * CELLS) + CELLS) % (2 * CELLS)]


def test_each_cell_attends_to_the_same_cell_of_the_other_image():
    assert counterpart(*attention()).min() > 0.8
    assert counterpart(*attention(), noise=0.3).mean() > 0.5
    assert counterpart(*attention(look=False)).mean() < 3 / (2 * CELLS)


@torch.no_grad()
def test_the_counterpart_is_subtracted_in_half_of_the_directions_and_the_side_in_none():
    made, _, side = attention()
    subtracted = -torch.stack([made.output(made.value(x)) for x in torch.eye(D)], 1)  # D x D
    torch.testing.assert_close(subtracted @ subtracted, subtracted, atol=1e-5, rtol=0)  # a projection
    torch.testing.assert_close(subtracted, subtracted.T, atol=1e-5, rtol=0)
    assert subtracted.trace().item() == pytest.approx(D // 2, abs=1e-3)
    assert (subtracted @ side).abs().max() < 1e-4


def test_places_by_loops():
    places = grid_places(ROWS, COLUMNS, D)
    for cell in range(CELLS):
        row, column = divmod(cell, COLUMNS)
        for k in (0, D // 4 - 1):
            frequency = math.pi * (k + 0.5) / (D // 4)
            wanted = [f(frequency * at) for at in (row, column) for f in (math.sin, math.cos)]
            assert places[cell, k :: D // 4].tolist() == pytest.approx(wanted, abs=1e-5)
    with pytest.raises(ValueError, match=r"a width that is a multiple of 4, not 66"):
        grid_places(ROWS, COLUMNS, 66)
