"""Attention with dropout, a pair at a time: against loops, its masks' statistics, and the same ones again."""

import math

import numpy as np
import pytest
import torch

from models.common.attention import MANY, MultiHeadAttention, attention_weights
from models.kernels import attention_cpu
from models.kernels.attention_cpu import dropped_attention, forward, random_bits, threshold

SHAPE = B, h, L, M, d = 3, 2, 5, 7, 4


def inputs(B=B, h=h, L=L, M=M, d=d, dtype=torch.float32):
    random = torch.Generator().manual_seed(3)
    made = [torch.randn(B, n, h, d, generator=random).to(dtype) for n in (L, M, M)]
    return [x.transpose(1, 2).requires_grad_() for x in made]


def masks(seed, p, shape=(B, h, L, M)):
    """What the weights of each pair are multiplied by."""
    first, scale = threshold(p)
    bits = [random_bits(seed, pair, torch.empty(shape[1:])) for pair in range(shape[0])]
    return torch.from_numpy(np.stack([(own >= first) * scale for own in bits]))


@pytest.mark.parametrize("p", [0.1, 0.5, 1.0])
def test_by_loops(p):
    q, k, v = (x.detach() for x in inputs())
    found, kept = forward(q, k, v, p, seed=11), masks(11, p)
    for b in range(B):
        for t in range(h):
            for i in range(L):
                powers = [math.exp(q[b, t, i] @ k[b, t, j] / math.sqrt(d)) for j in range(M)]
                weights = [x / sum(powers) * kept[b, t, i, j] for j, x in enumerate(powers)]
                expected = sum(w * v[b, t, j] for j, w in enumerate(weights))
                torch.testing.assert_close(found[b, t, i], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize("native", [True, False])
def test_gradients_are_those_of_the_whole_batch_at_once(monkeypatch, dtype, tolerance, native):
    monkeypatch.setattr(attention_cpu, "bfloat16_products", lambda: native)
    q, k, v = inputs(L=70, M=66, dtype=dtype)
    torch.manual_seed(5)
    found = dropped_attention(q, k, v, 0.3)
    torch.manual_seed(5)
    kept = masks(int(torch.randint(2**62, ())), 0.3, (B, h, 70, 66))
    assert found.dtype == dtype
    grad = torch.randn(found.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    mine = torch.autograd.grad(found, (q, k, v), grad)
    exact = [x.detach().float().requires_grad_() for x in (q, k, v)]
    expected = (attention_weights(*exact[:2]) * kept) @ exact[2]
    theirs = torch.autograd.grad(expected, exact, grad.float())
    torch.testing.assert_close(found.float(), expected, rtol=tolerance, atol=tolerance)
    for one, other in zip(mine, theirs, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one.float(), other, rtol=tolerance, atol=tolerance)


def test_without_dropout_it_is_the_attention():
    q, k, v = inputs(L=9)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(forward(q, k, v, 0.0, seed=1), expected)


def test_masks_are_independent_draws():
    """Their mean, and the correlation of neighbours in every direction, of other pairs and other seeds."""
    p, shape = 0.1, (4, 8, 196, 196)
    kept = (masks(1, p, shape) > 0).double()
    n = kept.numel()
    assert abs(kept.mean().item() - (1 - p)) < 5 * math.sqrt(p * (1 - p) / n)
    centred = (kept - (1 - p)) / math.sqrt(p * (1 - p))
    other = ((masks(2, p, shape) > 0).double() - (1 - p)) / math.sqrt(p * (1 - p))
    products = [centred[:-1] * centred[1:], centred[:, :-1] * centred[:, 1:], centred * other]
    products += [centred[:, :, :-1] * centred[:, :, 1:], centred[..., :-1] * centred[..., 1:]]
    for product in products:
        assert abs(product.mean().item()) < 5 / math.sqrt(product.numel())
    # as many kept in each row as of independent draws: variance n p (1 - p)
    rows = kept.sum(-1).flatten()
    assert rows.var().item() == pytest.approx(196 * p * (1 - p), rel=5 * math.sqrt(2 / len(rows)))


@pytest.mark.parametrize(("p", "kept"), [(0.0, 1.0), (1.0, 0.0)])
def test_all_or_nothing(p, kept):
    assert masks(1, p).unique().tolist() == [kept]


def test_a_seed_decides_the_masks_and_the_threads_do_not():
    q, k, v = inputs(L=80, M=80)

    def drawn(seed, threads):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            torch.manual_seed(seed)
            found = dropped_attention(q, k, v, 0.2)
            return found, *torch.autograd.grad(found.square().sum(), (q, k, v))
        finally:
            torch.set_num_threads(before)

    one, other = drawn(1, 1), drawn(1, 2)
    assert all(torch.equal(x, y) for x, y in zip(one, other, strict=True))
    assert not any(torch.equal(x, y) for x, y in zip(one, drawn(2, 1), strict=True))


def test_a_state_of_the_generator_goes_on_with_the_same_masks():
    q, k, v = inputs(L=70)
    torch.manual_seed(1)
    dropped_attention(q, k, v, 0.2)
    state = torch.get_rng_state()
    second, third = (dropped_attention(q, k, v, 0.2) for _ in range(2))
    torch.set_rng_state(state)
    assert torch.equal(second, dropped_attention(q, k, v, 0.2))
    assert not torch.equal(second, third)


@pytest.mark.parametrize(
    ("queries", "mode", "taken"), [(MANY, "train", True), (MANY - 1, "train", False), (MANY, "eval", False)]
)
def test_where_it_is_taken(monkeypatch, queries, mode, taken):
    seen = []
    own = attention_cpu.dropped_attention
    monkeypatch.setattr(attention_cpu, "dropped_attention", lambda *given: seen.append(1) or own(*given))
    torch.manual_seed(0)
    attention = getattr(MultiHeadAttention(8, 2, dropout=0.5), mode)()
    x = torch.randn(2, queries, 8)
    dropped, plain = attention(x, x), attention.eval()(x, x)
    assert bool(seen) == taken
    assert torch.equal(dropped, plain) == (mode == "eval")


def test_the_expectation_is_what_is_without_dropout():
    q, k, v = inputs(B=1, L=64, M=64)
    torch.manual_seed(0)
    mean = sum(dropped_attention(q, k, v, 0.25).detach() for _ in range(800)) / 800
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v).detach()
    assert (mean - expected).abs().max() < 0.1
    assert (mean - expected).square().mean().sqrt() < 0.012
