"""Compare time and memory of the matching, forward and backward, with a reference.

The reference computes all similarities at once, in float32.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from benchmarks import alone, reference
from benchmarks.alone import Measured, gradients, operands, shape_of
from benchmarks.training import Case
from models.kernels import matching_plain
from models.kernels.matching import token_matching

ROUNDS = 3
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def check(case: Case, dtype: torch.dtype) -> None:
    """Check that both sides give the same numbers.

    In float32, matching and gradients are compared directly. In bfloat16 similarities are rounded, so of
    several nearly equal similarities, another may be the largest. So in bfloat16 the matching is compared
    with a larger tolerance, and its gradients are compared with plain torch in bfloat16.
    """
    q, k, grad = operands(shape_of(case), dtype)
    exact = dtype == torch.float32
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if exact else {"rtol": 8e-3, "atol": 8e-3}
    whole = [x.detach().float().requires_grad_() for x in (q, k)]
    torch.testing.assert_close(token_matching(q, k), reference.matching(*whole), **tolerance)
    mine = gradients(token_matching, q, k, grad)
    if exact:
        theirs = gradients(reference.matching, *whole, grad)
    else:
        theirs = matching_plain.spread(grad, q, k, *matching_plain.locate(q.detach(), k.detach())[1:])
    for x, y in zip(mine, theirs, strict=True):
        difference = (x - y).float().norm() / y.float().norm()
        assert difference < (1e-4 if exact else 2e-2), difference


def seconds(sides: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, float]:
    """Return side -> median time of a call in seconds. The sides alternate, after a warm-up of each side."""
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(rounds + 1):
        for side, function in sides.items():
            start = time.perf_counter()
            function()
            if turn:
                taken[side].append(time.perf_counter() - start)
    return {side: statistics.median(each) for side, each in taken.items()}


def rows() -> list[tuple[str, ...]]:
    """Return the table's rows.

    First come rows with a batch of 32 pairs, as in the released programs, then rows with more pairs or
    tokens.
    """
    found = []
    for dtype in TYPES:
        for mtm in ("per_head", "summed"):
            case = Case("papers", mtm, 32)
            check(replace(case, scenes=8), TYPES[dtype])
            kind = "summed" if mtm == "summed" else "8 heads"
            found.append(_row(f"matching, {kind}, {dtype}, 32 pairs", dtype, case, True))
    for pairs in (8, 16, 32, 64, 128):
        case = Case("papers", "summed", pairs)
        found.append(_row(f"matching, summed, float32, {pairs} pairs", "float32", case, pairs <= 32))
    for grid in (7, 14, 28):
        case = Case("papers", "summed", 8, grid)
        found.append(_row(f"matching, summed, float32, 8 pairs of {grid**2} tokens", "float32", case, True))
    return found


def _row(name: str, dtype: str, case: Case, compared: bool) -> tuple[str, ...]:
    """Measure our side in `dtype` and, if `compared`, the reference in float32; return the table's row."""
    kinds = {"ours": dtype, "reference": "float32"} if compared else {"ours": dtype}
    sides = {
        side: partial(gradients, alone.SIDES[side], *operands(shape_of(case), TYPES[kind]))
        for side, kind in kinds.items()
    }
    rounds = 1 if case.scenes > 64 else ROUNDS
    took = seconds(sides, rounds)
    both = {}
    for side, kind in kinds.items():
        risen = alone.measure("matching", side, kind, case)
        assert risen is not None, f"no memory for {name}"
        both[side] = Measured(risen.bytes, took[side])
    against = f"all similarities at once, float32, median of {rounds}"
    if not compared:
        return name, against, str(both["ours"]), "-", "-"
    return (
        name,
        against,
        str(both["ours"]),
        str(both["reference"]),
        alone.ratio(both["ours"], both["reference"]),
    )
