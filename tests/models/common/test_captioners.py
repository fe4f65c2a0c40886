"""Models with SCORER's decoder: loss terms, initialisation, and settings that are refused."""

import pytest
import torch

from models import Sizes, build
from tests.own_settings import CANCELLED, GRID_MODELS, LEARNS, settings_of, unlearnt
from tests.reference.loops import maps_of
from tests.reference.transcription import SIZES

TERMS = {
    "subtraction": ("cap",),
    "rr": ("cap",),
    "scorer": ("cap", "cv"),
    "rr_cbr": ("cap", "cbr"),
    "scorer_cbr": ("cap", "cv", "cbr"),
    "transformer": ("cap",),
    "dirl": ("cap", "dirl"),
    "ccr": ("cap", "ccr"),
    "dirl_ccr": ("cap", "dirl", "ccr"),
}


def make(name, **switches):
    torch.manual_seed(0)
    return build(name, SIZES, settings_of(name) | {"switches": switches}).double()


def batch():
    random = torch.Generator().manual_seed(1)
    before, after = torch.randn(2, 3, 5, 2, 3, generator=random, dtype=torch.float64)
    tokens = torch.tensor([[2, 4, 5, 3, 0], [2, 6, 3, 0, 0], [2, 4, 7, 8, 3]])
    return before, after, tokens


def test_subtraction():
    model = make("subtraction")
    before, after, _ = batch()
    b, a = model.encoding(before), model.encoding(after)
    torch.testing.assert_close(model.encode(before, after).memory, model.difference.fc(a - b).relu())


@torch.no_grad()
def test_alignment_by_loops():
    pair = make("scorer_cbr").encode(*batch()[:2])
    found = pair.alignment([2, 0])
    for place, row in enumerate((2, 0)):
        q, k = (x[row].transpose(0, 1).flatten(1) for x in (pair.after_queries, pair.before_keys))
        torch.testing.assert_close(found[place], maps_of(q, k, 2))


@pytest.mark.parametrize("name", GRID_MODELS)
def test_terms_and_gradients(name):
    # with opposed halves of the fusion, what both images have alike has no gradient in the first step
    model = make(name, initialisation="xavier")
    assert name in TERMS, f"enter the loss terms of {name} in TERMS of {__file__}"
    assert model.terms == TERMS[name], (
        f"enter the loss terms of {name}, {model.terms}, in TERMS of {__file__}"
    )
    losses = model.losses(*batch())
    assert tuple(losses) == TERMS[name]
    sum(losses.values()).backward()
    assert unlearnt(model) == CANCELLED.get(name, set()), LEARNS


@pytest.mark.parametrize("name", [name for name in GRID_MODELS if hasattr(make(name).difference, "fuse")])
def test_the_fusion_is_initially_a_difference(name):
    image, other, _ = batch()
    model, independent = make(name).eval(), make(name, initialisation="xavier").eval()
    nothing, differences = model.difference.fuse.bias.relu(), []
    for each in (model, independent):
        differences.append((each.encode(image, image).memory - nothing).abs().max().item())
    assert differences[0] < 1e-12 < 1e-3 < differences[1]
    there, back = model.encode(image, other).memory, model.encode(other, image).memory
    assert (there - back).abs().max() > 1e-3  # the order of the images matters


@pytest.mark.parametrize("name", GRID_MODELS)
def test_several_captions_of_a_pair(name):
    """The loss is that of repeated pairs; regularisers see the first caption of each pair."""
    model = make(name).eval()
    before, after, first = batch()
    second = torch.tensor([[2, 8, 3, 0, 0], [2, 4, 5, 6, 3], [2, 3, 0, 0, 0]])
    both = torch.stack([first, second], 1).flatten(0, 1)
    found = model.losses(before, after, both)
    repeated = (grid.repeat_interleave(2, 0) for grid in (before, after))
    expected = model.losses(before, after, first) | {"cap": model.losses(*repeated, both)["cap"]}
    torch.testing.assert_close(found, expected)
    assert not torch.isclose(found["cap"], model.losses(before, after, first)["cap"])


def test_a_learned_temperature_is_initially_one_and_has_an_upper_bound():
    model = build("scorer", SIZES, settings_of("scorer") | {"variant": "released"})
    s = model.regularisers["cv"].contrast.s
    for value, kept in ((1.0, 1.0), (7.0, 4.6051702), (-3.0, -3.0)):
        if value != 1.0:
            s.data.fill_(value)
        model.constrain()
        assert s.item() == pytest.approx(kept)
    assert s.requires_grad


WIDE = Sizes(64, (14, 14), 400, 24, 64, 4, 2, 2, 50)


def test_the_released_initialisation():
    model = build("scorer_cbr", WIDE, settings_of("scorer_cbr") | {"variant": "released"})
    convolutions = ("encoding.project", "regularisers.cbr.join", "regularisers.cbr.imagine")
    linear = {n: m for n, m in model.named_modules() if isinstance(m, torch.nn.Linear | torch.nn.Embedding)}
    for name in linear.keys() - set(convolutions):
        rows = linear[name].weight.detach()[1:]  # without the padding's
        assert rows.std().item() == pytest.approx(0.02, rel=0.1), name
        assert getattr(linear[name], "bias", None) is None or not linear[name].bias.any(), name
    assert not model.decoder.embedding.weight[0].any()
    for name in convolutions:  # torch's: uniform within 1/sqrt(inputs)
        weight = model.get_submodule(name).weight.detach()
        assert weight.abs().max().item() == pytest.approx(weight[0].numel() ** -0.5, rel=0.02), name


def test_the_papers_initialisation_is_xaviers():
    model = build("scorer_cbr", WIDE, settings_of("scorer_cbr"))
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            bound = (6 / (weight[0].numel() + weight.shape[0])) ** 0.5
            assert weight.abs().max().item() == pytest.approx(bound, rel=0.05), name
            assert weight[1:].std().item() == pytest.approx(bound / 3**0.5, rel=0.1), name
    assert not model.decoder.embedding.weight[0].any()


RR = {"dropout": 0.1}


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("scorrer", {}, "unknown model 'scorrer'"),
        ("rr", RR | {"temperature": 0.5}, r"unknown key model\.rr\.temperature"),
        ("rr", {}, r"the key model\.rr\.dropout is missing"),
        ("rr", {"dropout": "0.1"}, r"model\.rr\.dropout must be a float, not '0\.1'"),
        ("rr", {"dropout": 1.5}, "dropout"),
        ("scorer", RR | {"temperature": 0.0}, "temperature"),
        ("rr", RR | {"variant": "release"}, r"model\.rr\.variant must be paper or released"),
        ("rr", RR | {"switches": None}, r"model\.rr\.switches must map names"),
        ("rr", RR | {"switches": {"coordinate": True}}, r"unknown key model\.rr\.switches\.coordinate"),
        ("rr", RR | {"switches": {"coordinates": 1}}, r"switches\.coordinates must be true or false, not 1"),
        ("rr", RR | {"switches": {"fusion": "mean"}}, r"switches\.fusion must be cat or .*, not 'mean'"),
        ("rr", RR | {"switches": {"fusion": True}}, r"switches\.fusion must be"),
        ("rr", RR | {"switches": {"mtm": "summed"}}, r"of other models is the key model\.rr\.switches\.mtm"),
        ("rr", RR | {"switches": {"norm_epsilon": 0.0}}, r"switches\.norm_epsilon must be a positive number"),
    ],
)
def test_settings_that_do_not_fit_are_named(name, settings, said):
    with pytest.raises(ValueError, match=said):
        build(name, SIZES, settings)
