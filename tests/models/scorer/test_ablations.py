"""The ablations of SCORER's figures, against a transcription by loops (tests/reference/transcription.py)."""

from dataclasses import replace
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


# --- RR+ ---


# --- learning ---
