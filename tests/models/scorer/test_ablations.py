"""The ablations of SCORER's figures, against a transcription by loops (tests/reference/transcription.py)."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from models.common import captioner
from models.common.switches import PAPER, RELEASED, Fusion, Mtm
from models.kernels import matching
from models.kernels.matching import partner_matching, pooled
from models.scorer import model as scorer
from tests.random_models import batch, found, make, randomise
from tests.reference import transcription
from tests.reference.transcription import SIZES

ABLATIONS = [("mtm", value) for value in get_args(Mtm)[1:]]  # Fig. 3
ABLATIONS += [("fusion", value) for value in get_args(Fusion)[1:]]  # supplement
ABLATIONS += [("contrast", "distance")]  # Fig. 13
POOLS = ("mean_pool", "max_pool")
CASES = pytest.mark.parametrize(("switch", "value"), ABLATIONS)


def equals_the_loops(model, switches):
    inputs = batch()
    expected = transcription.transcription(model, switches, inputs)
    values = found(model, inputs)
    for name, value in values.items():
        exact = {"rtol": 1e-9, "atol": 1e-9} if name in ("memory", "logits") else {"rtol": 1e-5}
        np.testing.assert_allclose(value, expected[name], **exact, err_msg=name)
    return values


@CASES
@pytest.mark.parametrize("base", [PAPER, RELEASED], ids=["paper", "released"])
def test_each_alone_as_the_loops_do(base, switch, value):
    variant = "paper" if base is PAPER else "released"
    model, plain = (randomise(make(s, variant=variant)).double() for s in ({switch: value}, {}))
    values, others = equals_the_loops(model, replace(base, **{switch: value})), found(plain, batch())
    changed = {
        n for n in values if values[n].shape != others[n].shape or abs(values[n] - others[n]).max() > 1e-7
    }
    if base.mtm == "summed" and value in ("summed", "single_head"):
        assert not changed  # the released programs' matching is the single head's
    else:
        assert changed == {"mtm": {"cv", "cbr"}, "contrast": {"cv"}, "fusion": {*values} - {"cv"}}[switch]


def test_all_of_them_at_once():
    for chosen in (
        {"mtm": "max_pool", "contrast": "distance", "fusion": "respective"},
        {"mtm": "mean_pool", "contrast": "distance", "fusion": "hadamard", "feed_forward": "inner_residual"},
        {"mtm": "single_head", "contrast": "distance", "temperature": "learned", "fusion": "sum"},
    ):
        equals_the_loops(randomise(make(chosen)).double(), replace(PAPER, **chosen))


@pytest.mark.parametrize(
    ("width", "heads", "layers", "fusion"),
    [(8, 1, 1, "cat"), (8, 8, 3, "cat"), (8, 4, 4, "respective"), (32, 16, 1, "respective")],
)
def test_heads_and_layers_by_loops(width, heads, layers, fusion, monkeypatch):
    sizes = replace(SIZES, width=width, heads=heads, layers=layers)
    monkeypatch.setattr(transcription, "SIZES", sizes)
    switches = {"fusion": fusion}
    equals_the_loops(randomise(make(switches, sizes=sizes), 0.3).double(), replace(PAPER, **switches))


# --- matching ---


def tensors(dtype=torch.float64, grad=True):
    random = torch.Generator().manual_seed(0)
    shapes = (4, 2, 5, 3), (4, 2, 6, 3)
    return [
        torch.randn(s, generator=random, dtype=torch.float64).to(dtype).requires_grad_(grad) for s in shapes
    ]


def unit(x, mtm):
    """What is matched has length 1: a head's token, a token's heads together, or the pooled image."""
    if mtm in POOLS:
        return x / pooled(x, mtm).norm(dim=-1)[:, None, None, None]
    return x / x.norm(dim=-1 if mtm == "per_head" else (1, 3), keepdim=True)


@pytest.mark.parametrize("mtm", get_args(Mtm))
def test_partners_are_the_diagonal_of_all_unit_vectors(mtm):
    q, k = tensors()
    whole, alone = matching.matching(unit(q, mtm), unit(k, mtm), mtm).diagonal(), partner_matching(q, k, mtm)
    torch.testing.assert_close(alone, whole)
    weights = torch.arange(1.0, 5.0, dtype=torch.float64)
    slow, fast = (torch.autograd.grad((x * weights).sum(), (q, k)) for x in (whole, alone))
    torch.testing.assert_close(fast, slow)


@pytest.mark.parametrize("mtm", get_args(Mtm))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_partners_of_the_compiled_path_are_the_diagonal_of_all(mtm, dtype):
    q, k = tensors(dtype, grad=False)
    whole = matching.matching(unit(q, mtm), unit(k, mtm), mtm).diagonal()
    torch.testing.assert_close(partner_matching(q, k, mtm), whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mtm", get_args(Mtm))
def test_longer_vectors_match_their_partner_no_better(mtm):
    """Without negatives a dot product would only have to grow."""
    q, k = tensors(grad=False)
    once, twice = partner_matching(q, k, mtm), partner_matching(9 * q, 9 * k, mtm)
    torch.testing.assert_close(once, twice)
    assert once.abs().max() <= 1
    itself = partner_matching(q, q, mtm)
    torch.testing.assert_close(itself, torch.ones_like(itself))
    assert not partner_matching(0 * q, k, mtm).any()


@pytest.mark.parametrize("mtm", get_args(Mtm))
@pytest.mark.parametrize("match", [matching.matching, partner_matching])
def test_gradcheck(match, mtm):
    assert torch.autograd.gradcheck(lambda q, k: match(q, k, mtm), tensors())


@pytest.mark.parametrize("mtm", POOLS)
def test_pools_are_of_float32_under_autocast(mtm):
    """bfloat16 would keep 8 bits of a similarity, which a temperature then magnifies."""
    q, k = tensors(torch.bfloat16, grad=False)
    expected = matching.matching(q.double(), k.double(), mtm)
    with torch.autocast("cpu", torch.bfloat16):
        pooled_first, alone = matching.matching(q, k, mtm), partner_matching(q, k, mtm)
        rounded = pooled(q, mtm) @ pooled(k, mtm).T
    assert pooled_first.dtype == alone.dtype == torch.float32
    torch.testing.assert_close(pooled_first.double(), expected, rtol=1e-6, atol=1e-6)
    diagonal = matching.matching(unit(q.double(), mtm), unit(k.double(), mtm), mtm).diagonal()
    torch.testing.assert_close(alone.double(), diagonal, rtol=1e-6, atol=1e-6)
    assert (rounded.double() - expected).abs().max() > 1e-4


def test_equal_greatest_tokens_share_the_gradient():
    x = torch.zeros(1, 1, 4, 2, requires_grad=True)
    pooled(x, "max_pool").sum().backward()
    assert x.grad.flatten().tolist() == [0.25] * 8


@pytest.mark.parametrize("mtm", get_args(Mtm))
def test_of_pools_only_vectors_travel(mtm, monkeypatch):
    travelled = []
    monkeypatch.setattr(matching, "everyone", lambda x: travelled.append(tuple(x.shape)) or x)
    matching.matching(*tensors(grad=False), mtm)
    token_wise = (4, 2, 6, 3) if mtm == "per_head" else (4, 1, 6, 6)
    assert travelled == [(4, 6) if mtm in POOLS else token_wise]


# --- RR+ ---


def test_the_distances_of_processes_add_up(monkeypatch):
    model = randomise(make({"contrast": "distance"}, name="scorer")).double()
    pair = model.encode(*batch()[:2])
    whole, single = model.regularisers["cv"](pair, None), captioner.split(pair, 3)
    monkeypatch.setattr(scorer, "processes", lambda: 3)
    torch.testing.assert_close(sum(model.regularisers["cv"](each, None) for each in single), whole)


def test_a_distance_has_no_negatives():
    """Other pairs in the batch change nothing for a pair; the contrast sees them."""
    for contrast, alike in (("distance", True), ("infonce", False)):
        model = randomise(make({"contrast": contrast}, name="scorer")).double()
        before, after, _ = batch()
        term = model.regularisers["cv"]
        gradients = []
        for others in (after, torch.stack([after[0], *after[1:].flip(0)])):
            first = before[:1].clone().requires_grad_()
            loss = term(model.encode(torch.cat([first, before[1:]]), others), None)
            gradients.append(torch.autograd.grad(loss, first)[0])
        assert torch.allclose(*gradients) == alike


def test_a_distance_needs_no_temperature():
    model = make({"contrast": "distance", "temperature": "learned"}, name="scorer_cbr")
    learned = [name for name, _ in model.named_parameters() if name.endswith("contrast.s")]
    assert learned == ["regularisers.cbr.contrast.s"]
    model.constrain()
    assert model.terms == ("cap", "cv", "cbr")


# --- learning ---


@CASES
@pytest.mark.parametrize("variant", ["paper", "released"])
def test_gradients_reach_what_learns(variant, switch, value):
    model = randomise(make({switch: value, "train_cbr": True}, variant=variant, dropout=0.1), 0.2).train()
    sum(model.losses(*batch(torch.float32)).values()).backward()
    without = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum()]
    # a bias added to every key shifts every score of a query alike, which softmax does not see
    assert [n for n in without if not n.endswith("key.bias")] == []
