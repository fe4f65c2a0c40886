"""SCORER in both variants, with each switch and each ablation, against loops (tests/reference)."""

from dataclasses import asdict, replace
from typing import get_args

import numpy as np
import pytest
import torch

from models.common.switches import PAPER, RELEASED, Fusion, Mtm
from models.kernels import matching
from models.kernels.matching import partner_matching, pooled
from tests.random_models import batch, found, make, randomise
from tests.reference import transcription
from tests.reference.transcription import SIZES

# switches that have an effect without dropout; the other switches have tests of their own
VISIBLE = ("coordinates", "mtm", "temperature", "attention_output", "norm_epsilon", "feed_forward")
VISIBLE += ("sentence", "reverse", "cbr_bias")
ABLATIONS = [("mtm", value) for value in get_args(Mtm)[1:]]  # Fig. 3
ABLATIONS += [("fusion", value) for value in get_args(Fusion)[1:]]  # supplement
ABLATIONS += [("contrast", "distance")]  # Fig. 13
POOLS = ("mean_pool", "max_pool")


def equals_the_loops(model, switches):
    inputs = batch()
    expected, values = transcription.scorer(model, switches, inputs), found(model, inputs)
    for name, value in values.items():
        exact = {"rtol": 1e-9, "atol": 1e-9} if name in ("memory", "logits") else {"rtol": 1e-5}
        np.testing.assert_allclose(value, expected[name], **exact, err_msg=name)
    return values


def test_the_released_variant_by_loops_in_float32():
    model, inputs = randomise(make(variant="released")), batch(torch.float32)
    expected = transcription.scorer(model, RELEASED, inputs)
    for name, value in found(model, inputs).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("switch", VISIBLE)
def test_each_switch_alone_by_loops(switch):
    chosen = {switch: asdict(RELEASED)[switch]}
    paper, model = (randomise(make(switches)).double() for switches in ({}, chosen))
    values, others = equals_the_loops(model, replace(PAPER, **chosen)), found(paper, batch())
    assert max(abs(values[name] - others[name]).max() for name in values) > 1e-7


@pytest.mark.parametrize(("switch", "value"), ABLATIONS)
@pytest.mark.parametrize("base", [PAPER, RELEASED], ids=["paper", "released"])
def test_each_ablation_by_loops(base, switch, value):
    variant = "paper" if base is PAPER else "released"
    model, plain = (randomise(make(s, variant=variant)).double() for s in ({switch: value}, {}))
    values, others = equals_the_loops(model, replace(base, **{switch: value})), found(plain, batch())
    changed = {
        n for n in values if values[n].shape != others[n].shape or abs(values[n] - others[n]).max() > 1e-7
    }
    if base.mtm == "summed" and value in ("summed", "single_head"):
        assert not changed  # both names are the released program's matching
    else:
        assert changed == {"mtm": {"cv", "cbr"}, "contrast": {"cv"}, "fusion": {*values} - {"cv"}}[switch]


@pytest.mark.parametrize(
    ("width", "heads", "layers", "fusion"), [(8, 1, 1, "cat"), (8, 8, 3, "cat"), (32, 16, 1, "respective")]
)
def test_heads_and_layers_by_loops(width, heads, layers, fusion, monkeypatch):
    sizes = replace(SIZES, width=width, heads=heads, layers=layers)
    monkeypatch.setattr(transcription, "SIZES", sizes)
    switches = {"fusion": fusion}
    equals_the_loops(randomise(make(switches, sizes=sizes), 0.3).double(), replace(PAPER, **switches))


# --- dropout: at rate 1 nothing remains of what is dropped ---


def dropped(switches):
    model = randomise(make(switches, "rr", dropout=1.0)).double()
    model.difference.train()
    before, after, _ = batch()
    return model, model.encoding(before), model.encoding(after)


@torch.no_grad()
def test_attention_dropout_is_applied_to_the_weights():
    model, b, a = dropped({"attention_dropout": True, "attention_output": False})
    expected = [b, a]
    for ln in model.difference.norms:
        expected = [ln(x) for x in expected]  # nothing comes from the other image
    memory = model.difference.fuse(torch.cat(expected, -1)).relu()
    torch.testing.assert_close(model.difference(b, a).memory, memory)
    model, b, a = dropped({"attention_output": False})
    assert not torch.allclose(model.difference(b, a).memory, memory)


@torch.no_grad()
def test_fusion_dropout_is_applied_before_the_relu():
    model, b, a = dropped({"fusion_dropout": True})
    assert model.difference(b, a).memory.abs().max() == 0
    model, b, a = dropped({})
    assert model.difference(b, a).memory.abs().max() > 0
    model.difference.dropout.register_forward_hook(lambda module, inputs, output: output.abs().neg())
    assert model.difference(b, a).memory.abs().max() == 0


@torch.no_grad()
def test_the_inner_residual_is_not_dropped():
    layer = randomise(make({"feed_forward": "inner_residual"}, dropout=1.0)).decoder.layers[0].train()
    x = torch.randn(2, 4, 8)
    u = torch.nn.functional.gelu(layer.feed_forward[0](x))
    torch.testing.assert_close(layer.fed_forward(x), u)


@torch.no_grad()
def test_dropout_of_the_fusion_respective_is_applied_to_both_images_weights():
    layer = randomise(make({"fusion": "respective"}, dropout=1.0)).decoder.layers[0].cross_attention
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 12, 8)
    given = layer.queries(x), *layer.keys_values(memory)
    assert layer.attend(*given).std() > 0
    layer.train()
    torch.testing.assert_close(layer.attend(*given), layer.output.bias.expand(2, 3, 8))


# --- matching ---


def unit(x, mtm):
    """Scale the vectors that are matched to length 1: of a head, of all heads, or the pooled image."""
    if mtm in POOLS:
        return x / pooled(x, mtm).norm(dim=-1)[:, None, None, None]
    return x / x.norm(dim=-1 if mtm == "per_head" else (1, 3), keepdim=True)


@pytest.mark.parametrize("mtm", get_args(Mtm))
def test_partner_matching_is_the_diagonal_of_all_unit_vectors(mtm):
    random = torch.Generator().manual_seed(0)
    shapes = (4, 2, 5, 3), (4, 2, 6, 3)
    q, k = (torch.randn(s, generator=random, dtype=torch.float64, requires_grad=True) for s in shapes)
    whole, alone = matching.matching(unit(q, mtm), unit(k, mtm), mtm).diagonal(), partner_matching(q, k, mtm)
    torch.testing.assert_close(alone, whole)
    weights = torch.arange(1.0, 5.0, dtype=torch.float64)
    slow, fast = (torch.autograd.grad((x * weights).sum(), (q, k)) for x in (whole, alone))
    torch.testing.assert_close(fast, slow)
    if mtm in POOLS:  # in float32 under autocast: bfloat16 would keep 8 bits
        q, k = q.detach().bfloat16(), k.detach().bfloat16()
        with torch.autocast("cpu", torch.bfloat16):
            rough = matching.matching(q, k, mtm)
        torch.testing.assert_close(rough.double(), matching.matching(q.double(), k.double(), mtm))
