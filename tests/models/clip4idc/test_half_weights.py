"""Setting half_weights: which tensors have 16 bits, and that results are near those of 32 bits."""

import pytest
import torch

import models
from models.clip4idc.model import halve
from pipeline.training.optimisers import build
from tests.models.clip4idc.test_clip4idc import SIZES, captions, images, settings

TRAINING = {"learning_rate": 1e-3, "optimiser": "bert_adam", "weight_decay": 0.0}
TOWERS = ("encoding.", "inter.", "text.", "difference.inter.")


def built(phase):
    torch.manual_seed(0)
    return models.build("clip4idc", SIZES, settings("clip4idc", "released", frozen="none"), phase)


@pytest.mark.parametrize("phase", ["adapt", None])
def test_maps_of_both_towers_have_16_bits_and_a_step_is_near_the_step_of_32_bits(phase):
    whole, half = built(phase), built(phase)
    halve(half)
    for name, parameter in half.named_parameters():
        maps = any(part in name for part in ("attention.", "mlp.", "map.", "project.weight"))
        wanted = torch.float16 if name.startswith(TOWERS) and maps else torch.float32
        assert parameter.dtype == wanted, name
    found, wanted = (
        model.losses_of(*model.encoding(images(4)).chunk(2), captions(2)) for model in (half, whole)
    )
    for name, value in wanted.items():
        assert found[name].dtype == torch.float32
        assert found[name].item() == pytest.approx(value.item(), rel=1e-2)
    before = {name: p.detach().clone() for name, p in half.named_parameters()}
    optimiser = build(half, half.groups, TRAINING)
    sum(found.values()).backward()
    torch.nn.utils.clip_grad_norm_(half.parameters(), 1.0)
    optimiser.step()
    assert {state["v"].dtype for state in optimiser.state.values()} == {torch.float16, torch.float32}
    moved = {name for name, p in half.named_parameters() if not torch.equal(p, before[name])}
    assert any(name.startswith("encoding.blocks.0.mlp") for name in moved)
    assert all(p.isfinite().all() for p in half.parameters())
