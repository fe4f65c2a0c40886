"""Helpers of `python -m benchmarks gpu`: sizes, lines of the table, measurement of a call."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks import alone
from benchmarks.alone import Measured
from benchmarks.training import finished

RIGHT = "right"  # goal of a check of correctness


@dataclass(frozen=True)
class Size:
    """Sizes of the measurements."""

    model: str  # key of training.SIZES
    grid: int  # cells per side in the matching and the step
    scenes: int  # scenes of a batch
    images: tuple[int, ...]  # numbers of extracted images: decoded by threads, decoded by processes
    rendered: int  # number of different images among the extracted images
    warm: int  # number of untimed iterations at the start of training
    timed: int


FULL = Size("papers", 14, 128, (4000, 16384), 768, 60, 120)
SMALL = Size("tabletop", 7, 4, (8,), 6, 1, 2)


@dataclass
class Found:
    """A line of the table that `python -m benchmarks gpu` writes."""

    what: str
    ours: str
    reference: str = ""
    ratio: str = ""
    goal: str = ""
    reached: bool | None = None


def measured(function: Callable[[], object]) -> Measured | None:
    """Measure the memory and the time of a call; return None if memory runs out."""
    try:
        took = median(function)
        return Measured(alone.risen(finished(function))[0], took)
    except torch.OutOfMemoryError:
        return None
    finally:
        torch.cuda.empty_cache()


def median(function: Callable[[], object], calls: int = 5, seconds: float = 10.0) -> float:
    """Return the median time of a call in seconds, after a warm-up call."""
    whole, taken = finished(function), list[float]()
    whole()
    while len(taken) < calls and sum(taken) < seconds:
        start = time.perf_counter()
        whole()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def beside(what: str, mine: Measured | None, plain: Measured | None) -> Found:
    """Return the table's line that compares our measurement (`mine`) with the reference's (`plain`)."""
    found = Found(what, str(mine or "no memory"), str(plain or "no memory"))
    if mine and plain:
        speed, memory = plain.seconds / mine.seconds, plain.bytes / max(2**20, mine.bytes)
        found.ratio = f"{speed:.1f}×, memory {memory:.1f}"
    return found
