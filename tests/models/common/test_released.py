"""The released variant, and each switch alone, against a transcription by loops (transcription.py).

What the papers' ablations alone switch is in test_ablations.py.
"""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from models import Sizes, build
from models.common.switches import DECODER, PAPER, RELEASED, RELEASED_DIRL, resolve
from tests.own_settings import CANCELLED, GRID_MODELS, LEARNS, settings_of, unlearnt
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

ABLATIONS = {
    "contrast",
    "fusion",
    "shared",
    "terms",
}  # switches of no variant: test_ablations.py, test_dirl.py


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


def test_every_switch_has_two_values_and_a_test():
    values = [asdict(each) for each in (PAPER, RELEASED, RELEASED_DIRL)]
    single = {name for name in values[0] if len({each[name] for each in values}) == 1}
    assert single == ABLATIONS
    others = {"attention_dropout", "fusion_dropout", "initialisation", "train_cbr"}
    differing = {name for name in values[0] if values[0][name] != values[1][name]}
    assert differing == {*VISIBLE, *others}  # DIRL's: test_dirl.py


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


@torch.no_grad()
def test_the_last_layer_rebuilds_the_after_image_by_its_alignment():
    model = randomise(make(name="rr", variant="released", sizes=replace(SIZES, heads=1))).double()
    b, a = (model.encoding(x) for x in batch()[:2])
    first, last = model.difference.attentions
    ln = model.difference.norms[0]
    b, a = ln(b + first(b, a)), ln(a + first(a, b))
    alignment = model.encode(*batch()[:2]).alignment([2, 0])
    torch.testing.assert_close(alignment.sum(-1), torch.ones(2, 6, dtype=torch.float64))
    torch.testing.assert_close(alignment @ last.value(b[[2, 0]]), last(a, b)[[2, 0]])


# --- learning ---


@pytest.mark.parametrize("name", GRID_MODELS)
def test_gradients_reach_what_is_trained(name):
    model = randomise(make(name=name, variant="released", dropout=0.1), 0.2).train()
    sum(model.losses(*batch(torch.float32)).values()).backward()
    frozen = [n for n, p in model.named_parameters() if n.startswith("regularisers.cbr.")]
    assert bool(frozen) == name.endswith("_cbr")
    assert [n for n, p in model.named_parameters() if not p.requires_grad] == frozen
    assert all(model.get_parameter(n).grad is None for n in frozen)
    assert unlearnt(model) - {*frozen} - CANCELLED.get(name, set()) == set(), LEARNS


def test_backward_reasoning_learns_where_it_is_told_to():
    model = randomise(make({"train_cbr": True}, variant="released"), 0.2)
    model.losses(*batch(torch.float32))["cbr"].backward()
    own = dict(model.regularisers["cbr"].named_parameters())
    assert {n for n, p in own.items() if p.grad is None or not p.grad.abs().sum()} == set()
    assert "contrast.s" in own


def test_a_frozen_reasoning_still_teaches_the_rest():
    model = randomise(make(variant="released"), 0.2)
    model.losses(*batch(torch.float32))["cbr"].backward()
    assert model.encoding.project.weight.grad.abs().sum() > 0
    assert model.decoder.embedding.weight.grad.abs().sum() > 0


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


def test_a_fixed_temperature_has_nothing_to_constrain():
    model = make()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.constrain()
    assert not any(name.endswith("contrast.s") for name in before)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


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

# losses of these sizes with seed 3, and of all parameters the sum of absolute values
BEFORE = {
    "subtraction": [2.324913, 494.4478],
    "rr": [2.297508, 622.9092],
    "scorer": [2.297508, 1.072587, 622.9092],
    "rr_cbr": [2.165513, 1.10217, 727.8597],
    "scorer_cbr": [2.165513, 1.092027, 1.10217, 727.8597],
}


@pytest.mark.parametrize("name", BEFORE)
def test_the_paper_variant_is_as_before(name):
    torch.manual_seed(3)
    model = build(name, SIZES, settings_of(name) | {"switches": {"initialisation": "torch"}})
    losses = model.losses(*batch(torch.float32))
    values = [loss.item() for loss in losses.values()]
    weights = sum(value.double().abs().sum().item() for value in model.state_dict().values())
    assert [*values, weights] == pytest.approx(BEFORE[name], rel=1e-5)


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
