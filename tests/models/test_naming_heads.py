"""The Namer's heads and losses against loops over cells."""

import math

import pytest
import torch
from torch import nn

from models.grid_classifier import LEFT_OUT, Namer, losses

CLASSES = {"color": 3, "shown": 2}


def test_heads_are_linear_maps_of_single_cells():
    torch.manual_seed(0)
    namer = Namer(nn.Identity(), 5, CLASSES)
    grids = torch.randn(2, 5, 3, 4)
    logits = namer(grids)
    assert {name: tuple(found.shape) for name, found in logits.items()} == {
        "color": (2, 3, 4, 3),
        "shown": (2, 3, 4, 2),
    }
    matrix, bias = namer.heads.weight[:, :, 0, 0], namer.heads.bias
    for b, i, j in [(0, 0, 0), (1, 2, 3), (0, 1, 3)]:
        whole = matrix @ grids[b, :, i, j] + bias
        torch.testing.assert_close(torch.cat([logits[name][b, i, j] for name in CLASSES]), whole)


def test_losses_are_means_over_labelled_cells():
    rng = torch.Generator().manual_seed(0)
    logits = {name: torch.randn(2, 3, 4, k, generator=rng) for name, k in CLASSES.items()}
    labels = {name: torch.randint(LEFT_OUT, k, (2, 3, 4), generator=rng) for name, k in CLASSES.items()}
    found = losses(logits, labels)
    for place, name in enumerate(CLASSES):
        each = []
        for row, wanted in zip(logits[name].reshape(24, -1).tolist(), labels[name].flatten(), strict=True):
            if wanted >= 0:
                each.append(math.log(sum(math.exp(x) for x in row)) - row[wanted])
        assert 0 < len(each) < 24
        assert found[place].item() == pytest.approx(sum(each) / len(each), rel=1e-5)


def test_without_a_labelled_cell_the_loss_is_nothing():
    logits = {"color": torch.randn(1, 2, 2, 3, requires_grad=True)}
    (loss,) = losses(logits, {"color": torch.full((1, 2, 2), LEFT_OUT)})
    loss.backward()
    assert loss.item() == 0
    assert not logits["color"].grad.any()
