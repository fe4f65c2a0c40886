"""What a row of `python -m benchmarks gpu` finds, and at which sizes it looks."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks import alone
from benchmarks.alone import Measured
from benchmarks.training import finished


@dataclass(frozen=True)
class Size:
    """How much of each thing."""

    model: str  # of training.SIZES
    grid: int  # cells along a side of the matching and the step
    scenes: int  # of a batch
    growing: tuple[int, ...]  # scenes of the growing batches
    iterations: int  # that 10,000 are extrapolated from
    stored: int  # scenes in the store that they are fed from
    images: int  # that are extracted, of which as many are rendered as `rendered`
    rendered: int
    pairs: int  # that are decoded
    alone: int  # of them one at a time, on the reference's side
    read: int  # images of a batch that is read
    compiler: str  # a GPU's, or one whose kernels two cores need not compile for minutes


FULL = Size("papers", 14, 128, (16, 32, 64, 128, 256), 200, 512, 4096, 1536, 1000, 48, 384, "inductor")
SMALL = Size("tabletop", 7, 4, (2, 4), 5, 12, 8, 6, 12, 4, 8, "aot_eager")


MIB = 2**20
RIGHT = "right"  # the goal of what is correct or not


@dataclass
class Found:
    """A line of the table; `numbers` are what its words were made from."""

    what: str
    ours: str
    reference: str = ""
    ratio: str = ""
    goal: str = ""
    reached: bool | None = None
    numbers: dict[str, Any] = field(default_factory=dict)


def median(function: Callable[[], object], calls: int = 5, seconds: float = 10.0) -> float:
    """Seconds of a call after a warm-up: the median of so many, fewer where they take long."""
    whole, taken = finished(function), list[float]()
    whole()
    while len(taken) < calls and sum(taken) < seconds:
        start = time.perf_counter()
        whole()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def measured(function: Callable[[], object]) -> Measured | None:
    """Bytes and seconds; None where memory runs out."""
    try:
        took = median(function)
        return Measured(alone.risen(finished(function))[0], took)
    except torch.OutOfMemoryError:
        return None
    finally:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def beside(
    what: str, mine: Measured | None, theirs: Measured | None, times: float | None, share: float | None = None
) -> Found:
    """Ours beside the reference; the goal is so many times the speed, and such a share of the memory."""
    goal = f"≥ {times:g}×" if times else ""
    goal += f", ≤ 1/{1 / share:g} of the memory" if share else ""
    found = Found(what, str(mine or "no memory"), str(theirs or "no memory"), goal=goal)
    if mine and theirs:
        speed, memory = theirs.seconds / mine.seconds, theirs.bytes / max(MIB, mine.bytes)
        found.ratio = f"{speed:.1f}×, memory {memory:.1f}"
        if times:
            found.reached = speed >= times and (not share or memory >= 1 / share)
    pairs = (("ours", mine), ("reference", theirs))
    found.numbers = {name: {"seconds": one.seconds, "bytes": one.bytes} for name, one in pairs if one}
    return found
