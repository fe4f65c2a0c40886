"""Compare our token-wise matching with a reference that stores all similarities, in time and memory.

Both run forward and backward. The reference uses float32.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from benchmarks.measures import Call, Row, measure_case, ratio
from benchmarks.reference_step import matching as reference
from benchmarks.training import SIZES, Case
from models.kernels import matching_plain
from models.kernels.matching import token_matching
from pipeline.compute import devices

ROUNDS = 3
SIDES = {"ours": token_matching, "reference": reference}
# pairs, cells of a side, and whether the reference fits into memory
GROWTH = ((8, 14, True), (16, 14, True), (64, 14, False), (128, 14, False), (8, 7, True), (8, 28, True))


def rows() -> Iterator[Row]:
    """Yield the table's rows: first batches of 32 pairs, as in the papers, then more pairs or tokens."""
    for dtype in ("float32", "bfloat16"):
        for mtm in ("per_head", "summed"):
            case = Case("papers", mtm, 32)
            check(replace(case, scenes=8), getattr(torch, dtype))
            yield row(dtype, case)
    for pairs, grid, compared in GROWTH:
        yield row("float32", Case("papers", "summed", pairs, grid), compared)


def row(dtype: str, case: Case, compared: bool = True) -> Row:
    """Measure our side in `dtype` and, if `compared`, the reference in float32; return the table's row."""
    dtypes = {"ours": dtype, "reference": "float32"} if compared else {"ours": dtype}
    sides = {side: partial(call, side, side_dtype) for side, side_dtype in dtypes.items()}
    results = measure_case(sides, case, ROUNDS)
    name = f"matching, {case.mtm}, {dtype}, {case.scenes} pairs of {case.grid**2} tokens"
    against = f"all similarities at once, float32, median of {ROUNDS}"
    our_result, reference_result = results["ours"], results.get("reference")
    return name, against, str(our_result), str(reference_result or "–"), ratio(our_result, reference_result)


def check(case: Case, dtype: torch.dtype) -> None:
    """Check that both sides give the same numbers.

    In bfloat16, rounding may change which of nearly equal similarities is the largest. So the tolerance is
    larger, and gradients are compared with those of plain torch in bfloat16.
    """
    q, k, grad = operands(case, dtype)
    is_exact = dtype == torch.float32
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if is_exact else {"rtol": 8e-3, "atol": 8e-3}
    float_operands = [x.detach().float().requires_grad_() for x in (q, k)]
    torch.testing.assert_close(token_matching(q, k), reference(*float_operands), **tolerance)
    our_gradients = gradients(token_matching, q, k, grad)
    if is_exact:
        reference_gradients = gradients(reference, *float_operands, grad)
    else:
        reference_gradients = matching_plain.spread(
            grad, q, k, *matching_plain.locate(q.detach(), k.detach())[1:]
        )
    for x, y in zip(our_gradients, reference_gradients, strict=True):
        difference = (x - y).float().norm() / y.float().norm()
        assert difference < (1e-4 if is_exact else 2e-2), difference


def call(side: str, dtype: str, case: Case, share: float = 1.0) -> Call:
    """Return a function that runs the matching of one side, `ours` or `reference`, forward and backward.

    `share` is the fraction of image pairs whose matching gets a gradient other than 0.
    """
    device = devices.device()
    tensors = operands(case, devices.precision(dtype, device))
    q, k, grad = (x.detach().to(device).requires_grad_() for x in tensors)
    grad = grad.detach() * (torch.rand(grad.shape[:2], device=device) < share)[..., None]
    return partial(gradients, SIDES[side], q, k, grad)


def operands(case: Case, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return random queries and keys of a case's matching, and a random gradient of its result.

    Queries and keys, (B, h, N, d), have the strides of a model's projections.
    """
    B, N = case.scenes, case.grid**2
    h = 1 if case.mtm == "summed" else SIZES[case.size]["heads"]
    d = SIZES[case.size]["width"] // h
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(B, N, h, d, generator=generator).to(dtype).transpose(1, 2) for _ in range(2))
    return q.requires_grad_(), k.requires_grad_(), torch.randn(B, B, h, generator=generator)


def gradients(match: Callable, q: Tensor, k: Tensor, grad: Tensor) -> tuple[Tensor, ...]:
    """Run a matching forward and backward; return the gradients of queries and keys."""
    return torch.autograd.grad(match(q, k), (q, k), grad)
