"""Setting half_weights: which tensors have 16 bits, and that results are near those of 32 bits."""

import pytest
import torch

import models
from models.clip4idc.model import halve
from pipeline.training.optimisers import build
from tests.models.clip4idc.test_clip4idc import SIZES, captions, images, settings

GIVEN = {"learning_rate": 1e-3, "optimiser": "bert_adam", "weight_decay": 0.0}


def pair(first):
    """Return a model, and a copy in 16 bits."""
    found = []
    for _ in range(2):
        torch.manual_seed(0)
        given = settings("clip4idc", "released", frozen="none")
        found.append(models.build("clip4idc", SIZES, given, "adapt" if first else None))
    halve(found[1])
    return found


def losses(model):
    encoded = model.encoding(images(4))
    return model.losses_of(encoded[:2], encoded[2:], captions(2))


@pytest.mark.parametrize("first", [True, False])
def test_only_the_maps_of_both_towers_have_16_bits(first):
    _, half = pair(first)
    towers = ("encoding.", "inter.", "text.", "difference.inter.")
    for name, parameter in half.named_parameters():
        maps = any(part in name for part in ("attention.", "mlp.", "map.", "project.weight"))
        wanted = torch.float16 if name.startswith(towers) and maps else torch.float32
        assert parameter.dtype == wanted, name


@pytest.mark.parametrize("first", [True, False])
def test_a_step_is_near_the_step_of_32_bits(first):
    whole, half = pair(first)
    encoded = half.encoding(images(1))
    assert encoded.dtype == torch.float16
    assert 0 < (encoded.float() - whole.encoding(images(1))).abs().max() < 0.02
    found, wanted = losses(half), losses(whole)
    for name, value in wanted.items():
        assert found[name].dtype == torch.float32
        assert found[name].item() == pytest.approx(value.item(), rel=1e-2)
    before = {name: p.detach().clone() for name, p in half.named_parameters()}
    optimiser = build(half, half.groups, GIVEN)
    sum(found.values()).backward()
    torch.nn.utils.clip_grad_norm_(half.parameters(), 1.0)
    optimiser.step()
    moments = {state["v"].dtype for state in optimiser.state.values()}
    assert moments == {torch.float16, torch.float32}
    moved = {name for name, p in half.named_parameters() if not torch.equal(p, before[name])}
    assert any(name.startswith("encoding.blocks.0.mlp") for name in moved)
    assert all(p.isfinite().all() for p in half.parameters())
