"""The matching, forward and backward, against all similarities at once in float32: seconds and memory.

`python -m benchmarks.matching SIDE TYPE B h N d` runs one side once in a process of its own and prints the
bytes that its resident memory rose by at most, as Linux counts it (VmHWM, reset before).
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks import reference
from models.kernels import matching_plain
from models.kernels.matching import token_matching

ROUNDS = 3
TOKENS, WIDTH = 196, 512
SIDES = {"ours": token_matching, "reference": reference.matching}
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
GIB = 2**30
Shape = tuple[int, int, int, int]  # pairs, heads, tokens, channels of a head


def operands(shape: Shape, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Queries and keys as the models project them, and the gradient of their matching."""
    B, h, N, d = shape
    random = torch.Generator().manual_seed(0)
    q, k = (torch.randn(B, N, h, d, generator=random).to(dtype).transpose(1, 2) for _ in range(2))
    return q.requires_grad_(), k.requires_grad_(), torch.randn(B, B, h, generator=random)


def gradients(match: Callable, q: Tensor, k: Tensor, grad: Tensor) -> tuple[Tensor, ...]:
    """Forward and backward."""
    return torch.autograd.grad(match(q, k), (q, k), grad)


def check(shape: Shape, dtype: torch.dtype) -> None:
    """Both sides' numbers are the same.

    In float32, matching and gradients as they are. bfloat16 rounds similarities, so that some nearly equal
    ones change places: the matching within that rounding; its gradients against plain torch in bfloat16.
    """
    q, k, grad = operands(shape, dtype)
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
    """The median of each side, taken in turn after a warm-up."""
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(rounds + 1):
        for side, function in sides.items():
            start = time.perf_counter()
            function()
            if turn:
                taken[side].append(time.perf_counter() - start)
    return {side: statistics.median(each) for side, each in taken.items()}


def memory(side: str, dtype: str, shape: Shape) -> int:
    """Bytes that one forward and backward add to a fresh process that has done a tiny one."""
    command = [sys.executable, "-m", "benchmarks.matching", side, dtype, *map(str, shape)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _risen(side: str, dtype: torch.dtype, shape: Shape) -> int:
    _, h, _, d = shape
    gradients(SIDES[side], *operands((2, h, 4, d), dtype))  # libraries and compiled loops
    given = operands(shape, dtype)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    gradients(SIDES[side], *given)
    return resident("VmHWM") - before


def resident(which: str) -> int:
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[which].split()[0])


def rows() -> list[tuple[str, ...]]:
    """The released programs' batch of 32, then growth with pairs and with tokens."""
    found = []
    for dtype in TYPES:
        for kind, heads in (("8 heads", 8), ("summed", 1)):
            shape = 32, heads, TOKENS, WIDTH // heads
            check((8, *shape[1:]), TYPES[dtype])
            found.append(_row(f"matching, {kind}, {dtype}, 32 pairs", dtype, shape, True))
    for pairs in (8, 16, 32, 64, 128):
        shape = pairs, 1, TOKENS, WIDTH
        found.append(_row(f"matching, summed, float32, {pairs} pairs", "float32", shape, pairs <= 32))
    for tokens in (49, 196, 784):
        shape = 8, 1, tokens, WIDTH
        found.append(_row(f"matching, summed, float32, 8 pairs of {tokens} tokens", "float32", shape, True))
    return found


def _row(name: str, dtype: str, shape: Shape, compared: bool) -> tuple[str, ...]:
    """Ours in `dtype`, the reference in float32 where it is `compared`."""
    kinds = {"ours": dtype, "reference": "float32"} if compared else {"ours": dtype}
    sides = {x: partial(gradients, SIDES[x], *operands(shape, TYPES[kinds[x]])) for x in kinds}
    rounds = 1 if shape[0] > 64 else ROUNDS
    took = seconds(sides, rounds)
    risen = {side: memory(side, kinds[side], shape) for side in kinds}
    shown = {side: f"{1000 * took[side]:.0f} ms, {risen[side] / GIB:.2f} GiB" for side in kinds}
    ratio = "-"
    if compared:
        times, bytes_ = (x["reference"] / x["ours"] for x in (took, risen))
        ratio = f"{times:.1f}, memory {bytes_:.1f}"
    against = f"all similarities at once, float32, median of {rounds}"
    return name, against, shown["ours"], shown.get("reference", "-"), ratio


if __name__ == "__main__":
    side, kind, *sizes = sys.argv[1:]
    print(_risen(side, TYPES[kind], tuple(map(int, sizes))))
