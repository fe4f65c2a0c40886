"""Measure time and memory of a matching or of a training step, in this process.

`python -m benchmarks.alone KIND SIDE TYPE SIZE MTM SCENES GRID VARIANT` first makes a call on two scenes,
which loads libraries and compiles loops. The next call measures memory. Further calls measure time, if calls
are short. The program prints the largest increase of memory in bytes, and the median time in seconds. On a
CPU the memory is the resident memory (VmHWM); on a GPU it is the memory that torch has allocated.
"""

import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks import reference, training
from benchmarks.training import Case
from models.kernels.matching import token_matching
from pipeline.compute import devices

NO_MEMORY = 3  # exit code if memory runs out
CALLS, LONG = 3, 10.0  # largest number of timed calls; seconds after which no further call starts
SIDES = {"ours": token_matching, "reference": reference.matching}
Shape = tuple[int, int, int, int]  # pairs, heads, tokens, channels per head


@dataclass(frozen=True)
class Measured:
    """Memory and time of one call."""

    bytes: int
    seconds: float

    def __str__(self) -> str:
        return f"{shown(self.seconds)}, {self.bytes / 2**30:.2f} GiB"


def shown(seconds: float) -> str:
    """Format a duration in seconds as text with a suitable unit."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def ratio(mine: Measured, plain: Measured) -> str:
    """Return, as text, the reference's time and memory divided by ours."""
    return f"{plain.seconds / mine.seconds:.1f}, memory {plain.bytes / mine.bytes:.1f}"


def measure(kind: str, side: str, dtype: str, case: Case) -> Measured | None:
    """Measure one side of a case in a new process.

    kind: `matching` or `step` (a training step)
    side: `ours` or `reference`
    dtype: type of the computation, as in `train.precision`

    Returns None if the process was killed or its memory ran out.
    """
    words = [kind, side, dtype, *map(str, astuple(case))]
    command = [sys.executable, "-m", "benchmarks.alone", *words]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if found.returncode in (-signal.SIGKILL, NO_MEMORY):
        return None
    if found.returncode:
        sys.exit(f"error: {' '.join(command[1:])} failed")
    risen, seconds = found.stdout.split()
    return Measured(int(risen), float(seconds))


def call(kind: str, side: str, dtype: str, case: Case, share: float = 1.0) -> Callable[[], object]:
    """Return a function that makes the call to measure, and waits until the device has finished.

    `kind`, `side`, `dtype` and `case` have the same meaning as in `measure`. `share` is the fraction of image
    pairs whose matching gets a gradient other than 0.
    """
    if kind == "step":
        return training.finished(training.step(side, dtype, case))
    device = devices.device()
    made = operands(shape_of(case), devices.precision(dtype, device))
    q, k, grad = (x.detach().to(device).requires_grad_() for x in made)
    grad = grad.detach() * (torch.rand(grad.shape[:2], device=device) < share)[..., None]
    return training.finished(partial(gradients, SIDES[side], q, k, grad))


def shape_of(case: Case) -> Shape:
    """Return the shape of the queries in a case's matching."""
    heads = 1 if case.mtm == "summed" else training.SIZES[case.size]["heads"]
    return case.scenes, heads, case.grid**2, training.SIZES[case.size]["width"] // heads


def operands(shape: Shape, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return random queries and keys for a matching, and a random gradient of its result.

    Queries and keys have the strides of a model's projections.
    """
    B, h, N, d = shape
    random = torch.Generator().manual_seed(0)
    q, k = (torch.randn(B, N, h, d, generator=random).to(dtype).transpose(1, 2) for _ in range(2))
    return q.requires_grad_(), k.requires_grad_(), torch.randn(B, B, h, generator=random)


def gradients(match: Callable, q: Tensor, k: Tensor, grad: Tensor) -> tuple[Tensor, ...]:
    """Run a matching forward and backward; return the gradients of queries and keys."""
    return torch.autograd.grad(match(q, k), (q, k), grad)


def _measured(kind: str, side: str, dtype: str, case: Case) -> Measured:
    call(kind, side, dtype, replace(case, scenes=2, grid=2))()
    function = call(kind, side, dtype, case)
    found = risen(function)
    return Measured(found[0], _median(function, found[1]))


def risen(function: Callable[[], object]) -> tuple[int, float]:
    """Call the function; return the largest increase of memory in bytes, and the time in seconds."""
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5")
    before = torch.cuda.memory_allocated() if on_gpu else _resident("VmRSS")
    start = time.perf_counter()
    function()
    took = time.perf_counter() - start
    return (torch.cuda.max_memory_allocated() if on_gpu else _resident("VmHWM")) - before, took


def _resident(which: str) -> int:
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[which].split()[0])


def _median(function: Callable[[], object], first: float) -> float:
    """Return the median time of further calls, in seconds.

    `first` is the time of the earlier warm-up call. If that call took long, `first` is returned instead.
    """
    seconds: list[float] = []
    while first + sum(seconds) < LONG and len(seconds) < CALLS - 1:
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds or [first])


if __name__ == "__main__":
    *what, size, mtm, scenes, grid, variant = sys.argv[1:]
    try:
        one = _measured(*what, Case(size, mtm, int(scenes), int(grid), variant))
    except torch.OutOfMemoryError:
        sys.exit(NO_MEMORY)
    print(one.bytes, one.seconds)
