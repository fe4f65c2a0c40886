"""Token-wise matching against loops written from SCORER Eq. 2-4."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.kernels import matching_cpu, matching_plain
from models.kernels.matching import MOST_TOKENS, implementation, token_matching


def tm(q, k):
    """Compute SCORER Eq. 2 for one pair and one head, from lists of vectors."""
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


def whole(q, k):
    """Compute TM from the tensor of all similarities."""
    e = torch.einsum("bhnd,ahmd->bahnm", q, k)
    return (e.amax(-1).mean(-1) + e.amax(-2).mean(-1)) / 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("B", "A", "h", "N", "M", "d"), [(3, 4, 2, 5, 6, 3), (9, 6, 1, 196, 150, 96), (2, 3, 3, 900, 4, 64)]
)
def test_gradients_are_those_of_autograd(dtype, B, A, h, N, M, d):
    q, k = tensors(B, A, h, N, M, d, dtype)
    weights = torch.randn(B, A, h, dtype=dtype)
    expected = torch.autograd.grad((whole(q, k) * weights).sum(), (q, k))
    found = token_matching(q, k)
    torch.testing.assert_close(found, whole(q, k), rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(torch.autograd.grad((found * weights).sum(), (q, k)), expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


def test_which_implementation():
    q, _ = tensors()
    assert implementation(q, q) is matching_plain  # float64
    for kind in (torch.float32, torch.bfloat16):
        assert implementation(q.to(kind), q.to(kind)) is matching_cpu
    assert implementation(q.half(), q.half()) is matching_plain


def test_more_tokens_than_the_indices_count():
    one = torch.zeros(1, 1, 1, 1)
    with pytest.raises(ValueError, match="32767"):
        token_matching(one.expand(1, 1, MOST_TOKENS + 1, 1), one)


def found_in(e):
    """Return TM, and the places of the maxima of rows and columns, of one pair's similarities (N, M)."""
    N, M = e.shape
    matches = torch.empty(1, 1, 1)
    row_at, column_at = (torch.empty(1, 1, 1, size, dtype=torch.int16) for size in (N, M))
    matching_cpu.maxima(e, matches, row_at, column_at, (0, 0, 0))
    return matches.item(), row_at.flatten().tolist(), column_at.flatten().tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@given(data=st.data())
def test_maxima_of_any_numbers(dtype, data):
    N, M = (data.draw(st.integers(1, 5)) for _ in range(2))
    number = st.sampled_from([0.0, -0.0, 1.5, -1.5, 3e-39, -3e-39, math.inf, -math.inf]) | st.floats(width=16)
    values = data.draw(st.lists(number.filter(lambda x: x == x), min_size=N * M, max_size=N * M))
    e = torch.tensor(values, dtype=dtype).view(N, M)
    match, row_at, column_at = found_in(e)
    rows, columns = e.tolist(), e.T.tolist()
    assert row_at == [x.index(max(x)) for x in rows]
    assert column_at == [x.index(max(x)) for x in columns]
    expected = (sum(map(max, rows)) / N + sum(map(max, columns)) / M) / 2
    assert match == pytest.approx(expected, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize(
    "find", [found_in, lambda e: [x.flatten().tolist() for x in matching_plain._locate(e)]]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_tie_has_the_lowest_index_and_nan_of_either_sign_is_the_maximum(find, dtype):
    e = torch.randint(0, 3, (70, 50), generator=torch.Generator().manual_seed(0)).to(dtype)  # mostly ties
    _, row_at, column_at = find(e)
    assert row_at == [x.index(max(x)) for x in e.tolist()]
    assert column_at == [x.index(max(x)) for x in e.T.tolist()]
    for sign in (1.0, -1.0):
        e = torch.zeros(3, 2, dtype=dtype)
        e[1, 1] = math.copysign(math.nan, sign)
        assert list(find(e)[1:]) == [[0, 1, 0], [0, 1]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("B", "A", "h", "N", "M", "d"), [(4, 3, 2, 33, 20, 8), (9, 6, 1, 196, 150, 96), (2, 3, 3, 900, 4, 64)]
)
def test_the_compiled_path_equals_the_plain_one(dtype, B, A, h, N, M, d):
    """With integers, products are exact, and there are ties."""
    q, k = (
        x.detach().mul(2).round().transpose(1, 2).contiguous().transpose(1, 2)
        for x in tensors(B, A, h, N, M, d, dtype)
    )
    grad = torch.randn(B, A, h, generator=torch.Generator().manual_seed(1))
    fast, slow = matching_cpu.locate(q, k), matching_plain.locate(q, k)
    torch.testing.assert_close(fast[0], slow[0])
    assert torch.equal(fast[1], slow[1])
    assert torch.equal(fast[2], slow[2])
    for mine, theirs in zip(
        matching_cpu.spread(grad, q, k, *fast[1:]), matching_plain.spread(grad, q, k, *slow[1:]), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results_do_not_depend_on_the_number_of_threads(dtype):
    q, k = (x.detach() for x in tensors(9, 10, 2, 196, 196, 64, dtype))
    grad, seen, before = torch.randn(9, 10, 2), [], torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            found = matching_cpu.locate(q, k)
            seen.append([*found, *matching_cpu.spread(grad, q, k, *found[1:])])
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(x, y) for x, y in zip(*seen, strict=True))


def test_a_nan_similarity_reaches_the_matching():
    q, k = tensors(dtype=torch.float32)
    with torch.no_grad():
        q[0, 0, 0, 0] = math.nan
    assert token_matching(q, k)[0, :, 0].isnan().all()
    assert token_matching(q, k)[1:].isfinite().all()
