"""DIRL and CCR in both variants, and with each switch alone, against loops (tests/reference)."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from models import build
from models.common.switches import PAPER, RELEASED_DIRL
from models.dirl.model import correlation
from tests import random_models
from tests.random_models import batch, found, randomise
from tests.reference import transcription
from tests.reference.transcription import SIZES

VISIBLE = {  # switches that have an effect without dropout
    "coordinates": True,
    "attention_output": False,
    "norm_epsilon": 1e-2,
    "center": True,
    "shared": "attention",
    "fusion_norm": True,
    "streams": "normed",
    "pooled": "all",
    "directions": "averaged",
    "ccr_layers": "last",
    "terms": "discrimination",
}


def make(switches=None, name="dirl_ccr", **rest):
    return random_models.make(switches, name, **rest)


@pytest.mark.parametrize(("variant", "switches"), [("paper", PAPER), ("released", RELEASED_DIRL)])
def test_both_variants_by_loops(variant, switches):
    model, inputs = randomise(make(variant=variant)).double(), batch()
    expected = transcription.dirl(model, switches, inputs)
    for name, value in found(model, inputs).items():
        exact = {"rtol": 1e-9, "atol": 1e-9} if name in ("memory", "logits") else {"rtol": 1e-5}
        np.testing.assert_allclose(value, expected[name], **exact, err_msg=name)


@pytest.mark.parametrize("switch", VISIBLE)
def test_each_switch_alone_by_loops(switch):
    chosen, inputs = {switch: VISIBLE[switch]}, batch()
    without, model = (randomise(make(switches)).double() for switches in ({}, chosen))
    expected = transcription.dirl(model, replace(PAPER, **chosen), inputs)
    values, others = found(model, inputs), found(without, inputs)
    for name, value in values.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-8, err_msg=name)
    assert max(abs(values[name] - others[name]).max() for name in values) > 1e-5


def test_the_correlation_is_in_float32_under_autocast():
    b, a = torch.randn(2, 300, 4, generator=torch.Generator().manual_seed(4)) + 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        C = correlation(b, a, False)
    assert C.dtype == torch.float32
    torch.testing.assert_close(C, correlation(b, a, False), rtol=0, atol=0)


@pytest.mark.parametrize("variant", ["paper", "released"])
@torch.no_grad()
def test_a_loss_does_not_depend_on_the_padding_of_the_batch(variant):
    model, (before, after, words) = randomise(make(name="ccr", variant=variant)), batch(torch.float32)
    padded = torch.nn.functional.pad(words, (0, 2))
    one, other = model.losses(before, after, words), model.losses(before, after, padded)
    assert one["ccr"].item() == pytest.approx(other["ccr"].item(), rel=1e-5)
    assert one["cap"].item() == pytest.approx(other["cap"].item(), rel=1e-5)


@torch.no_grad()
def test_each_part_has_its_own_negatives():
    model, (before, after, words) = randomise(make()), batch(torch.float32)
    b, a = (model.encoding(torch.cat([x, x.flip(0)])) for x in (before, after))
    both = model.losses_of(b, a, torch.cat([words, words.flip(0)]), parts=2)
    for name, value in model.losses(before, after, words).items():  # the order of pairs has no effect
        assert both[name].item() == pytest.approx(value.item(), rel=1e-5)


# --- dropout: at rate 1 nothing remains of what is dropped ---


@torch.no_grad()
def test_dropout_of_a_layer_is_applied_to_the_attention():
    model = randomise(make({"shared": "layers"}, "transformer", dropout=1.0)).double()
    model.difference.train()
    b, a = (model.encoding(x) for x in batch()[:2])
    kept = [b, a]
    for norm in model.difference.norms:
        kept = [norm(x) for x in kept]
    differences = torch.cat([b - kept[0], a - kept[1]], -1)
    torch.testing.assert_close(model.difference(b, a).memory, model.difference.fuse(differences).relu())


@torch.no_grad()
def test_fusion_is_linear_norm_dropout_relu():
    model = randomise(make({"fusion_norm": True, "fusion_dropout": True}, "transformer", dropout=1.0))
    b, a = (model.encoding(x) for x in batch(torch.float32)[:2])
    seen = []
    model.difference.norm.register_forward_hook(lambda module, inputs, output: seen.append(output))
    assert model.difference(b, a).memory.equal(seen[0].relu())
    model.difference.train()
    assert model.difference(b, a).memory.abs().max() == 0


@torch.no_grad()
@pytest.mark.parametrize(("switch", "left"), [("before_norm", True), ("after_norm", False)])
def test_word_dropout_is_before_or_after_the_norm(switch, left):
    words = batch()[2]
    decoder = randomise(make({"word_dropout": switch}, "transformer", dropout=1.0)).decoder.train()
    assert bool(decoder.embed(words).abs().sum()) == left
    if left:
        torch.testing.assert_close(decoder.embed(words)[1, 2], decoder.norm.bias)


def test_a_negative_alpha_is_refused():
    with pytest.raises(ValueError, match=r"alpha must not be negative, not -0\.1"):
        build("dirl", SIZES, {"dropout": 0.1, "alpha": -0.1})
