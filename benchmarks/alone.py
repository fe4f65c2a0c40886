"""Seconds and memory of a matching or a training step in a process of its own.

`python -m benchmarks.alone KIND SIDE TYPE SIZE MTM SCENES GRID VARIANT`: one call on few scenes, so that
libraries are loaded and loops compiled, then the call that memory is taken from, then more as long as that
is short. It prints the bytes that memory rose by at most (a processor: resident, VmHWM; a GPU: allocated by
torch) and the median seconds.
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

from benchmarks import matching, training
from benchmarks.training import Case
from pipeline.compute import devices

NO_MEMORY = 3  # exit code
CALLS, LONG = 3, 10.0  # at most so many, of which none begins after so many seconds


@dataclass(frozen=True)
class Measured:
    """What one call takes."""

    bytes: int
    seconds: float

    def __str__(self) -> str:
        return f"{shown(self.seconds)}, {self.bytes / 2**30:.2f} GiB"


def shown(seconds: float) -> str:
    """With the unit that fits."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def measure(kind: str, side: str, dtype: str, case: Case) -> Measured | None:
    """Start the process and read what it prints; None where the system killed it, or memory ran out."""
    words = [kind, side, dtype, *map(str, astuple(case))]
    command = [sys.executable, "-m", "benchmarks.alone", *words]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if found.returncode in (-signal.SIGKILL, NO_MEMORY):
        return None
    if found.returncode:
        sys.exit(f"error: {' '.join(command[1:])} failed")
    risen, seconds = found.stdout.split()
    return Measured(int(risen), float(seconds))


def call(kind: str, side: str, dtype: str, case: Case) -> Callable[[], object]:
    """A function without arguments; it returns when the device has finished."""
    if kind == "step":
        return training.finished(training.step(side, dtype, case))
    device = devices.device()
    heads = 1 if case.mtm == "summed" else training.SIZES[case.size]["heads"]
    shape = case.scenes, heads, case.grid**2, training.SIZES[case.size]["width"] // heads
    operands = [x.detach().to(device) for x in matching.operands(shape, devices.precision(dtype, device))]
    q, k, grad = (x.requires_grad_() for x in operands)
    return training.finished(partial(matching.gradients, matching.SIDES[side], q, k, grad))


def _measured(kind: str, side: str, dtype: str, case: Case) -> Measured:
    call(kind, side, dtype, replace(case, scenes=2, grid=2))()
    function = call(kind, side, dtype, case)
    found = risen(function)
    return Measured(found[0], _median(function, found[1]))


def risen(function: Callable[[], object]) -> tuple[int, float]:
    """Bytes that a call's memory rises by at most, and its seconds."""
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5")
    before = torch.cuda.memory_allocated() if on_gpu else matching.resident("VmRSS")
    start = time.perf_counter()
    function()
    took = time.perf_counter() - start
    return (torch.cuda.max_memory_allocated() if on_gpu else matching.resident("VmHWM")) - before, took


def _median(function: Callable[[], object], first: float) -> float:
    """Of the calls after the first, which is a warm-up; of the first where it took long."""
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
