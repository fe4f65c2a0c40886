"""Token-wise matching against loops written from SCORER Eq. 2-4."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models import argmax_cpu
from models import matching as plain
from models.cbr import MultiHeadMatching
from models.matching import contrast, matching, token_matching


def tm(q, k):
    """SCORER Eq. 2 for one pair and one head, from lists of vectors."""
    e = [[sum(a * b for a, b in zip(qi, kj, strict=True)) for kj in k] for qi in q]
    rows = sum(max(row) for row in e) / len(q)
    columns = sum(max(e[i][j] for i in range(len(q))) for j in range(len(k))) / len(k)
    return (rows + columns) / 2


def tensors(B=3, A=4, h=2, N=5, M=6, d=3, dtype=torch.float64, seed=0):
    random = torch.Generator().manual_seed(seed)
    q = torch.randn(B, h, N, d, dtype=dtype, generator=random, requires_grad=True)
    k = torch.randn(A, h, M, d, dtype=dtype, generator=random, requires_grad=True)
    return q, k


def test_equation_2_by_loops():
    q, k = tensors()
    found = token_matching(q, k)
    assert found.shape == (3, 4, 2)
    for b in range(3):
        for a in range(4):
            for head in range(2):
                expected = tm(q[b, head].tolist(), k[a, head].tolist())
                assert found[b, a, head].item() == pytest.approx(expected, abs=1e-5)


def test_equation_3_is_the_mean_over_heads():
    q, k = tensors()
    expected = [
        [sum(tm(q[b, i].tolist(), k[a, i].tolist()) for i in (0, 1)) / 2 for a in range(4)] for b in range(3)
    ]
    torch.testing.assert_close(matching(q, k), torch.tensor(expected, dtype=torch.float32))


def test_heads_differ_from_one_wide_head():
    q, k = tensors()
    one = token_matching(q.transpose(1, 2).flatten(2)[:, None], k.transpose(1, 2).flatten(2)[:, None]).mean(
        -1
    )
    assert not torch.allclose(matching(q, k), one)


def test_gradients_equal_autograds_through_the_whole_tensor():
    q, k = tensors()
    weights = torch.randn(3, 4, 2, dtype=torch.float64)
    e = torch.einsum("bhnd,ahmd->bahnm", q, k)
    whole = (e.amax(-1).mean(-1) + e.amax(-2).mean(-1)) / 2
    expected = torch.autograd.grad((whole * weights).sum(), (q, k))
    found = torch.autograd.grad((token_matching(q, k) * weights).sum(), (q, k))
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-8)


def test_maxima_stand_at_the_lowest_index_of_a_tie():
    random = torch.Generator().manual_seed(0)
    e = torch.randint(0, 3, (2, 3, 7, 5), generator=random).float()  # mostly ties
    row, row_at, column, column_at = argmax_cpu.maxima(e)
    for a in range(2):
        for t in range(3):
            rows, columns = e[a, t].tolist(), e[a, t].T.tolist()
            assert row[a, t].tolist() == [max(x) for x in rows]
            assert row_at[a, t].tolist() == [x.index(max(x)) for x in rows]
            assert column[a, t].tolist() == [max(x) for x in columns]
            assert column_at[a, t].tolist() == [x.index(max(x)) for x in columns]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@given(data=st.data())
def test_maxima_of_any_numbers(dtype, data):
    N, M = (data.draw(st.integers(1, 5)) for _ in range(2))
    number = st.sampled_from([0.0, -0.0, 1.5, -1.5, 3e-39, -3e-39, math.inf, -math.inf]) | st.floats(width=16)
    values = data.draw(st.lists(number.filter(lambda x: x == x), min_size=N * M, max_size=N * M))
    e = torch.tensor(values, dtype=dtype).view(1, 1, N, M)
    row, row_at, column, column_at = argmax_cpu.maxima(e)
    rows, columns = e[0, 0].tolist(), e[0, 0].T.tolist()
    assert row[0, 0].tolist() == [max(x) for x in rows]
    assert row_at[0, 0].tolist() == [x.index(max(x)) for x in rows]
    assert column[0, 0].tolist() == [max(x) for x in columns]
    assert column_at[0, 0].tolist() == [x.index(max(x)) for x in columns]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_nan_of_either_sign_is_the_maximum(dtype, sign):
    e = torch.zeros(1, 1, 3, 2, dtype=dtype)
    e[0, 0, 1, 1] = math.copysign(math.nan, sign)
    row, row_at, column, column_at = argmax_cpu.maxima(e)
    assert row[0, 0].isnan().tolist() == [False, True, False]
    assert column[0, 0].isnan().tolist() == [False, True]
    assert (row_at[0, 0, 1], column_at[0, 0, 1]) == (1, 1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_compiled_path_equals_the_plain_one(dtype, monkeypatch):
    q, k = tensors(B=4, A=3, h=2, N=33, M=20, d=8, dtype=dtype)
    q = (
        q.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
    )  # strides as models have them
    fast = token_matching(q, k)
    fast_gradients = torch.autograd.grad(fast.square().sum(), (q, k))
    monkeypatch.setattr(argmax_cpu, "maxima", plain.maxima)
    monkeypatch.setattr(argmax_cpu, "spread", plain.spread)
    slow = token_matching(q, k)
    assert torch.equal(fast, slow)
    for mine, theirs in zip(fast_gradients, torch.autograd.grad(slow.square().sum(), (q, k)), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_nan_similarity_reaches_the_matching():
    q, k = tensors(dtype=torch.float32)
    with torch.no_grad():
        q[0, 0, 0, 0] = math.nan
    assert token_matching(q, k)[0, :, 0].isnan().all()
    assert token_matching(q, k)[1:].isfinite().all()


def test_gradients_keep_the_dtype_of_the_operands():
    q, k = tensors(dtype=torch.bfloat16)
    token_matching(q, k).sum().backward()
    assert q.grad.dtype == k.grad.dtype == torch.bfloat16
    assert q.grad.abs().sum() > 0


def test_equation_4_by_loops():
    S = torch.randn(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    tau = 0.5
    rows = [[math.exp(value / tau) for value in row] for row in S.tolist()]
    expected = -sum(math.log(row[k] / sum(row)) for k, row in enumerate(rows)) / 4
    assert contrast(S, tau).item() == pytest.approx(expected)


def test_own_projections_put_queries_on_the_first_argument():
    torch.manual_seed(0)
    module = MultiHeadMatching(width=8, heads=2).double()
    first, second = torch.randn(2, 3, 5, 8, dtype=torch.float64)
    q = module.query(first).view(3, 5, 2, 4).transpose(1, 2)
    k = module.key(second).view(3, 5, 2, 4).transpose(1, 2)
    torch.testing.assert_close(module(first, second), matching(q, k))
    assert not torch.allclose(module(first, second), module(second, first).T)
