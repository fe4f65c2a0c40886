"""The released variant, and each switch alone, against a transcription by loops (transcription.py).

What the papers' ablations alone switch is in test_ablations.py.
"""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from models import Sizes, build
from models.common.switches import DECODER, PAPER, RELEASED, resolve
from tests.random_models import batch, found, make, randomise
from tests.reference.transcription import SIZES, transcription

# what a switch does without dropout shows in these, by loops; the others have tests of their own
VISIBLE = (
    "coordinates",
    "mtm",
    "temperature",
    "attention_output",
    "norm_epsilon",
    "feed_forward",
    "sentence",
    "reverse",
    "cbr_bias",
)


def test_the_released_variant_by_loops_in_float32():
    model, inputs = randomise(make(variant="released")), batch(torch.float32)
    expected = transcription(model, RELEASED, inputs)
    for name, value in found(model, inputs).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("switch", VISIBLE)
def test_each_switch_alone_changes_the_result_as_the_loops_do(switch):
    chosen = {switch: asdict(RELEASED)[switch]}
    inputs = batch()
    paper, model = (randomise(make(switches)).double() for switches in ({}, chosen))
    expected = transcription(model, replace(PAPER, **chosen), inputs)
    values, others = found(model, inputs), found(paper, inputs)
    for name, value in values.items():
        exact = {"rtol": 1e-9, "atol": 1e-9} if name in ("memory", "logits") else {"rtol": 1e-5}
        np.testing.assert_allclose(value, expected[name], **exact, err_msg=name)
    assert max(abs(values[name] - others[name]).max() for name in values) > 1e-7


# --- dropout: at rate 1 nothing is left of what is dropped, and the rest can be computed ---


def dropped(switches, name="rr"):
    model = randomise(make(switches, name, dropout=1.0)).double()
    model.difference.train()
    before, after, _ = batch()
    return model, model.encoding(before), model.encoding(after)


@torch.no_grad()
def test_attention_dropout_is_on_the_weights():
    model, b, a = dropped({"attention_dropout": True, "attention_output": False})
    expected = [b, a]
    for ln in model.difference.norms:
        expected = [ln(x) for x in expected]  # nothing comes from the other image
    memory = model.difference.fuse(torch.cat(expected, -1)).relu()
    torch.testing.assert_close(model.difference(b, a).memory, memory)
    model, b, a = dropped({"attention_output": False})
    assert not torch.allclose(model.difference(b, a).memory, memory)


@torch.no_grad()
def test_fusion_dropout_is_before_the_relu():
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


# --- decoding ---


# --- learning ---


def test_a_learned_temperature_begins_at_one_and_is_clamped():
    model = make(variant="released")
    s = model.regularisers["cv"].contrast.s
    assert s.item() == 1.0
    model.constrain()
    assert s.item() == 1.0
    with torch.no_grad():
        s.fill_(7.0)
    model.constrain()
    assert s.exp().item() == pytest.approx(100, abs=1e-3)
    assert s.requires_grad
    with torch.no_grad():
        s.fill_(-3.0)
    model.constrain()
    assert s.item() == -3.0  # there is no lower bound


def test_the_released_first_weights():
    sizes = Sizes(64, (14, 14), 400, 24, 64, 4, 2, 2, 50)
    model = make(variant="released", sizes=sizes)
    convolutions = ("encoding.project", "regularisers.cbr.join", "regularisers.cbr.imagine")
    linear = {n: m for n, m in model.named_modules() if isinstance(m, torch.nn.Linear | torch.nn.Embedding)}
    for name in linear.keys() - set(convolutions):
        rows = linear[name].weight.detach()[1:]  # without the padding's
        assert rows.std().item() == pytest.approx(0.02, rel=0.1), name
        assert abs(rows.mean().item()) < 0.002, name
        assert getattr(linear[name], "bias", None) is None or not linear[name].bias.any(), name
    assert not model.decoder.embedding.weight[0].any()
    for name in convolutions:  # uniform within 1/sqrt(inputs), torch's own
        weight = model.get_submodule(name).weight.detach()
        assert weight.abs().max().item() == pytest.approx(weight[0].numel() ** -0.5, rel=0.02), name
        assert model.get_submodule(name).bias.any(), name
    assert make(sizes=sizes).decoder.vocabulary.weight.std().item() > 0.05


def test_the_papers_first_weights_are_xaviers():
    model = make(sizes=Sizes(64, (14, 14), 400, 24, 64, 4, 2, 2, 50))
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            inputs, outputs = weight[0].numel(), weight.shape[0]
            bound = (6 / (inputs + outputs)) ** 0.5
            assert weight.abs().max().item() == pytest.approx(bound, rel=0.05), name
            assert weight[1:].std().item() == pytest.approx(bound / 3**0.5, rel=0.1), name
    assert not model.decoder.embedding.weight[0].any()
    assert model.decoder.vocabulary.bias.any()  # torch's own


# --- the paper's variant is what it was before there were variants, but for its first weights ---


# --- settings ---


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"variant": "release"}, r"model\.rr\.variant must be paper or released, not 'release'"),
        ({"variant": ["paper"]}, r"model\.rr\.variant must be paper or released"),
        ({"switches": None}, r"model\.rr\.switches must map names"),
        ({"switches": {"coordinate": True}}, r"unknown key model\.rr\.switches\.coordinate; there are"),
        ({"switches": {"coordinates": 1}}, r"model\.rr\.switches\.coordinates must be true or false, not 1"),
        (
            {"switches": {"fusion": "mean"}},
            r"model\.rr\.switches\.fusion must be cat or sum or .* or respective, not 'mean'",
        ),
        ({"switches": {"fusion": True}}, r"model\.rr\.switches\.fusion must be"),
        ({"switches": {"mtm": "summed"}}, r"of other models is the key model\.rr\.switches\.mtm; there are"),
        ({"switches": {"norm_epsilon": 0.0}}, r"model\.rr\.switches\.norm_epsilon must be a positive number"),
        ({"switches": {"norm_epsilon": "1e-6"}}, r"model\.rr\.switches\.norm_epsilon must be a positive"),
        ({"variants": "paper"}, r"unknown key model\.rr\.variants; it has variant, switches, dropout"),
    ],
)
def test_what_is_no_variant_is_named(settings, said):
    with pytest.raises(ValueError, match=said):
        build("rr", SIZES, {"dropout": 0.1} | settings)


def test_single_switches_override_their_variant():
    assert resolve("model.rr", "paper", {}, RELEASED, DECODER) == PAPER
    found = resolve("model.rr", "released", {"coordinates": False}, RELEASED, DECODER)
    assert found == replace(RELEASED, coordinates=False)
