"""Measure time and memory of calls, and compare our code with a reference implementation."""

import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil
import torch

ROUNDS = 7
Row = tuple[str, str, str, str, str]  # what, reference, our time, the reference's time, ratio
Call = Callable[[], object]


@dataclass(frozen=True)
class Measured:
    """Time of a call in seconds, and the increase in memory during the call, in bytes."""

    seconds: float
    bytes: int

    def __str__(self) -> str:
        return f"{duration(self.seconds)}, {self.bytes / 2**30:.2f} GiB"


def duration(seconds: float) -> str:
    """Format a duration in seconds as text with a suitable unit."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def ratio(ours: Measured | None, reference: Measured | None) -> str:
    """Return, as text, the reference's time and memory divided by ours; "–" if one side was not measured."""
    if ours is None or reference is None:
        return "–"
    memory = reference.bytes / max(2**20, ours.bytes)
    return f"{reference.seconds / ours.seconds:.1f}, memory {memory:.1f}"


def compare(name: str, ours: Call, reference: Call, against: str, rounds: int = ROUNDS) -> Row:
    """Measure the time of both sides; return the table's row. `against` describes the reference."""
    our_time, reference_time = seconds({"ours": ours, "reference": reference}, rounds).values()
    return (
        name,
        f"{against}, median of {rounds}",
        duration(our_time),
        duration(reference_time),
        f"{reference_time / our_time:.1f}",
    )


def seconds(sides: dict[str, Call], rounds: int) -> dict[str, float]:
    """Return side -> median time of a call in seconds. The sides alternate, after a warm-up of each side."""
    durations: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(rounds + 1):
        for side, function in sides.items():
            start = time.perf_counter()
            call_and_wait(function)
            if turn:
                durations[side].append(time.perf_counter() - start)
    return {side: statistics.median(side_durations) for side, side_durations in durations.items()}


def measure_case(sides: Mapping[str, Callable[[Any], Call]], case: Any, rounds: int) -> dict[str, Measured]:
    """Return side -> time and memory of a call.

    `sides`: side -> function that prepares the call for a case. `case` is a training.Case.
    """
    times = seconds({side: prepare(case) for side, prepare in sides.items()}, rounds)
    return {side: Measured(times[side], _memory(prepare, case)) for side, prepare in sides.items()}


def call_and_wait(function: Call) -> None:
    """Call a function, and wait until the device has finished."""
    function()
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def measured(function: Call, rounds: int = 5) -> Measured | None:
    """Measure a call on a GPU, after a warm-up; return None if memory runs out."""
    try:
        time_taken = seconds({"": function}, rounds)[""]
        return Measured(time_taken, memory_increase(function))
    except torch.OutOfMemoryError:
        return None
    finally:
        torch.cuda.empty_cache()


def memory_increase(function: Call) -> int:
    """Call a function; return the largest increase of memory in bytes.

    On a CPU, it is the resident memory of this process. On a GPU, it is the memory that torch has allocated.
    """
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call_and_wait(function)
        return torch.cuda.max_memory_allocated() - before
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = psutil.Process().memory_info().rss
    function()
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    return 1024 * int(peak.split()[1]) - before


def _memory(prepare: Callable[[Any], Call], case: Any) -> int:
    """Return the memory in bytes of a call, measured in a new process; 0 if memory runs out."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            return pool.submit(_warm_memory_increase, prepare, case).result()
        except (BrokenProcessPool, torch.OutOfMemoryError):
            return 0


def _warm_memory_increase(prepare: Callable[[Any], Call], case: Any) -> int:
    prepare(replace(case, scenes=2, grid=2))()  # load libraries and compile loops
    return memory_increase(prepare(case))
