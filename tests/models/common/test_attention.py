"""Attention for bfloat16 on a CPU against the fused kernel."""

import pytest
import torch

from models.common.attention import MultiHeadAttention


def operands(dtype, L=5, M=7, grad=True):
    random = torch.Generator().manual_seed(0)
    shapes = ((2, 2, L, 4), (2, 2, M, 4), (2, 2, M, 4))
    return [torch.randn(s, generator=random).to(dtype).requires_grad_(grad) for s in shapes]


@pytest.mark.parametrize("causal", [False, True])
def test_the_path_of_bfloat16_equals_the_fused_one(causal):
    """Both round; the fused kernel in float32 is the reference."""
    module = MultiHeadAttention(8, 2)
    module.output = torch.nn.Identity()
    sizes = {"L": 6, "M": 6}
    q, k, v = operands(torch.bfloat16, **sizes)
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
    q, k, v = operands(torch.bfloat16)
    torch.manual_seed(0)
    dropped, others = module.attend(q, k, v), module.attend(q, k, v)
    assert not torch.equal(dropped, others)
    module.eval()
    assert torch.equal(module.attend(q, k, v), module.attend(q, k, v))
