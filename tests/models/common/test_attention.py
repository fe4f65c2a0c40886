"""Attention for bfloat16 against the fused kernel, packed captions, and several maps by one product."""

import pytest
import torch

from models.common import attention, decoder
from models.common.attention import MultiHeadAttention, jointly, one_product
from models.common.decoder import ALL_WORDS
from tests.random_models import batch, make, randomise


def operands(L, M):
    random = torch.Generator().manual_seed(0)
    shapes = ((2, 2, L, 4), (2, 2, M, 4), (2, 2, M, 4))
    return [torch.randn(s, generator=random).bfloat16().requires_grad_() for s in shapes]


@pytest.mark.parametrize("causal", [False, True])
def test_the_path_of_bfloat16_equals_the_fused_one(causal):
    """Both paths round; the fused kernel in float32 is the reference."""
    module = MultiHeadAttention(8, 2)
    module.output = torch.nn.Identity()
    q, k, v = operands(6, 6)
    ours = module.attend(q, k, v, causal)
    exact = [x.detach().float().requires_grad_() for x in (q, k, v)]
    truth = module.attend(*exact, causal)
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours.float(), truth, atol=0.02, rtol=0.02)
    grads = torch.autograd.grad(ours.float().square().sum(), (q, k, v))
    for mine, theirs in zip(grads, torch.autograd.grad(truth.square().sum(), exact), strict=True):
        torch.testing.assert_close(mine.float(), theirs, atol=0.05, rtol=0.05)
    fused = module.attend(*(x.detach() for x in (q, k, v)), causal)  # nothing to learn: the fused kernel
    torch.testing.assert_close(ours, fused, atol=0.02, rtol=0.02)


def test_dropout_is_of_the_weights_and_only_in_training():
    module = MultiHeadAttention(8, 2, dropout=0.5)
    module.output = torch.nn.Identity()
    q, k, v = operands(5, 7)
    torch.manual_seed(0)
    dropped, others = module.attend(q, k, v), module.attend(q, k, v)
    assert not torch.equal(dropped, others)
    module.eval()
    assert torch.equal(module.attend(q, k, v), module.attend(q, k, v))


def outcome(model, inputs):
    model.zero_grad()
    losses = model.losses(*inputs)
    sum(losses.values()).backward()
    grads = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
    return losses, grads


@pytest.mark.parametrize("switches", [{}, {"fusion": "respective"}])
@pytest.mark.parametrize("variant", ["paper", "released"])
def test_losses_and_gradients_are_those_without_packing(monkeypatch, variant, switches):
    model, inputs = randomise(make(switches, variant=variant)).double(), batch()
    assert (inputs[2] == 0).any()  # there is padding
    losses, grads = outcome(model, inputs)
    packed = []
    monkeypatch.setattr(decoder, "RealWords", lambda read: packed.append(read) or ALL_WORDS)
    whole, expected = outcome(model, inputs)
    assert packed
    torch.testing.assert_close(losses, whole, rtol=1e-9, atol=1e-9)
    assert grads.keys() == expected.keys()
    for name, grad in grads.items():
        torch.testing.assert_close(grad, expected[name], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("bias", [True, False])
def test_one_product_is_every_map(bias):
    x, maps = torch.randn(2, 3, 8), [torch.nn.Linear(8, width, bias) for width in (8, 8, 4)]
    for mine, own, each in zip(one_product(x, *maps), jointly(x, *maps), maps, strict=True):
        torch.testing.assert_close(mine, each(x))
        assert torch.equal(own, each(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_weights_that_are_computed_again_are_the_same(monkeypatch, dtype, causal):
    """The backward pass drops the same weights again, and later random numbers do not change."""
    torch.manual_seed(0)
    module = MultiHeadAttention(8, 2, 0.4).to(dtype)
    x = torch.randn(3, 7, 8, dtype=dtype)
    outcomes = []
    for smallest in (1, 1 << 60):
        monkeypatch.setattr(attention, "RECOMPUTED", smallest)
        module.zero_grad()
        torch.manual_seed(1)
        out = module(x, x, causal)
        out.float().square().sum().backward()
        grads = [each.grad for each in module.parameters()]
        outcomes.append([out.detach(), *grads, torch.rand(3)])
    assert all(torch.equal(*both) for both in zip(*outcomes, strict=True))


def test_large_attentions_with_dropout_store_less(monkeypatch):
    module, x = MultiHeadAttention(8, 2, 0.4), torch.randn(2, 64, 8)
    stored = []
    for smallest in (1, 1 << 60):
        monkeypatch.setattr(attention, "RECOMPUTED", smallest)
        sizes = []

        def keep(tensor, sizes=sizes):
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, keep):
            module(x, x)
        stored.append(sum(sizes))
    assert stored[0] < stored[1] / 2
