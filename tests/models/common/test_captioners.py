"""The models of SCORER's tables: encoding, reconstruction, backward reasoning, which parameters learn."""

import math

import pytest
import torch

from models import build
from tests.own_settings import CANCELLED, GRID_MODELS, LEARNS, settings_of, unlearnt
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
    model = make("scorer_cbr")
    before, after, _ = batch()
    pair = model.encode(before, after)
    found = pair.alignment([2, 0])
    assert found.shape == (2, 6, 6)
    for place, row in enumerate((2, 0)):
        expected = torch.zeros(6, 6, dtype=torch.float64)
        for head in range(2):
            for i in range(6):
                q = pair.after_queries[row, head, i]
                powers = [math.exp(float(q @ pair.before_keys[row, head, j]) / 2) for j in range(6)]
                expected[i] += torch.tensor(powers, dtype=torch.float64) / sum(powers) / 2
        torch.testing.assert_close(found[place], expected)


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
def test_the_fusion_begins_as_a_difference(name):
    image, other, _ = batch()
    model, independent = make(name).eval(), make(name, initialisation="xavier").eval()
    nothing, differences = model.difference.fuse.bias.relu(), []
    for each in (model, independent):
        differences.append((each.encode(image, image).memory - nothing).abs().max().item())
    assert differences[0] < 1e-12 < 1e-3 < differences[1]
    there, back = model.encode(image, other).memory, model.encode(other, image).memory
    assert (there - back).abs().max() > 1e-3  # which is which is told apart


@pytest.mark.parametrize("name", GRID_MODELS)
def test_several_captions_of_a_pair(name):
    """Their loss is that of pairs which stand there several times; the regularisers see each first one."""
    model = make(name).eval()
    before, after, first = batch()
    second = torch.tensor([[2, 8, 3, 0, 0], [2, 4, 5, 6, 3], [2, 3, 0, 0, 0]])
    both = torch.stack([first, second], 1).flatten(0, 1)
    found = model.losses(before, after, both)
    repeated = (grid.repeat_interleave(2, 0) for grid in (before, after))
    expected = model.losses(before, after, first) | {"cap": model.losses(*repeated, both)["cap"]}
    torch.testing.assert_close(found, expected)
    assert not torch.isclose(found["cap"], model.losses(before, after, first)["cap"])


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("scorrer", {}, "unknown model 'scorrer'"),
        ("rr", {"dropout": 0.1, "temperature": 0.5}, "unknown key model.rr.temperature"),
        ("rr", {}, "the key model.rr.dropout is missing"),
        ("rr", {"dropout": "0.1"}, "model.rr.dropout must be a float, not '0.1'"),
        ("rr", {"dropout": 1.5}, "dropout"),
        ("scorer", {"dropout": 0.1, "temperature": 0.0}, "temperature"),
    ],
)
def test_build_refuses(name, settings, said):
    with pytest.raises(ValueError, match=said):
        build(name, SIZES, settings)
