"""Packed captions against captions with padding."""

import pytest
import torch

from models.common import decoder as module
from models.common.attention import jointly, one_product
from models.common.decoder import ALL_WORDS
from tests.random_models import batch, make, randomise


def outcome(model, inputs):
    model.zero_grad()
    losses = model.losses(*inputs)
    sum(losses.values()).backward()
    grads = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
    return losses, grads


@pytest.mark.parametrize("switches", [{}, {"fusion": "respective"}])
@pytest.mark.parametrize("variant", ["paper", "released"])
def test_losses_and_gradients_are_those_without_packing(monkeypatch, variant, switches):
    model, inputs = randomise(make(switches, variant=variant)).double(), batch()
    assert (inputs[2] == 0).any()  # there is padding
    losses, grads = outcome(model, inputs)
    packed = []
    monkeypatch.setattr(module, "RealWords", lambda read: packed.append(read) or ALL_WORDS)
    whole, expected = outcome(model, inputs)
    assert packed
    torch.testing.assert_close(losses, whole, rtol=1e-9, atol=1e-9)
    assert grads.keys() == expected.keys()
    for name, grad in grads.items():
        torch.testing.assert_close(grad, expected[name], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("bias", [True, False])
def test_one_product_is_every_map(bias):
    x, maps = torch.randn(2, 3, 8), [torch.nn.Linear(8, width, bias) for width in (8, 8, 4)]
    for mine, own, each in zip(one_product(x, *maps), jointly(x, *maps), maps, strict=True):
        torch.testing.assert_close(mine, each(x))
        assert torch.equal(own, each(x))
