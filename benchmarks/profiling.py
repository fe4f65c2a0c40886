"""Measure the time of each part of a training step, such as the decoder, with torch.profiler.

A part is a profiler scope around a method. The method is patched during the measurement. A backward operation
belongs to the part of its forward operation (torch gives both the same number). Copies and type conversions
are a separate part, except in the matching and the optimiser. On a CPU, the time is the wall-clock time of
the thread that runs the step. On a GPU, it is the time of the step's kernels.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from unittest.mock import patch

import torch
from rich.table import Table
from torch.autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.training import Case, finished, step
from models.common.decoder import CaptionDecoder
from models.common.grid_embedding import GridEmbedding
from models.kernels import matching_cpu, matching_plain
from models.kernels.matching import TRITON
from models.scorer.cbr import BackwardReasoning
from models.scorer.model import Scorer

STEPS = 3
CASES = (Case("papers", "per_head", 32), Case("tabletop", "per_head", 8))
FORWARD, BACKWARD = "matching, forward", "matching, backward"
COPIES, OPTIMISER, REST = "casts and copies", "optimiser", "the rest"
METHODS: list[tuple[object, str, str]] = [
    (GridEmbedding, "forward", "pair encoding"),
    (Scorer, "forward", "reconstruction (attention)"),
    (CaptionDecoder, "forward", "decoder"),
    (BackwardReasoning, "forward", "backward reasoning, but its matching"),
    (torch.optim.Adam, "step", OPTIMISER),
]
WHOLE = (FORWARD, BACKWARD, OPTIMISER)  # parts that include their own copies
PARTS = (*(part for _, _, part in METHODS), FORWARD, BACKWARD, COPIES, REST)
COPYING = {f"aten::{name}" for name in ("to", "_to_copy", "copy_", "clone", "contiguous")}
NODE = "autograd::engine::evaluate_function"  # name of the events of backward nodes

Shares = dict[str, float]  # part -> time


def table(cases: tuple[Case, ...] = CASES, steps: int = STEPS) -> Table:
    """Return a table of the times of parts, with a column for each case.

    The table's caption names the parts that take longest.
    """
    found = {f"{case.size}, {case.scenes} scenes": milliseconds(case, steps) for case in cases}
    longest = "; ".join(f"{name}: {max(parts, key=parts.__getitem__)}" for name, parts in found.items())
    shown = Table(
        "part",
        *found,
        title="where a training step's time goes, forward and backward",
        caption=f"the next bottleneck: {longest}",
        show_footer=True,
    )
    for part in PARTS:
        shown.add_row(part, *(f"{x[part]:.1f} ms, {x[part] / sum(x.values()):.1%}" for x in found.values()))
    shown.columns[0].footer = "together"
    for column, parts in zip(shown.columns[1:], found.values(), strict=True):
        column.footer = f"{sum(parts.values()):.1f} ms"
    return shown


def milliseconds(case: Case, steps: int) -> Shares:
    """Return part -> time per step in milliseconds, as a mean over `steps` steps in `auto` precision.

    The times include the overhead of profiling.
    """
    on_gpu = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * on_gpu
    one = finished(step("ours", "auto", case))
    with scopes():
        one()
        with profile(activities=activities) as profiled:
            start = time.perf_counter()
            for _ in range(steps):
                one()
            clock = time.perf_counter() - start
    taken = by_part([event for event in profiled.events() if event.device_type == DeviceType.CPU], on_gpu)
    if not on_gpu:
        taken[REST] += 1e6 * clock - sum(taken.values())  # time between operations
    return {part: microseconds / 1000 / steps for part, microseconds in taken.items()}


def by_part(events: list[FunctionEvent], on_gpu: bool) -> Shares:
    """Return part -> time of its operations in microseconds.

    The time of an operation does not include the operations that it contains.
    """
    parts = forward_parts(events)
    taken = dict.fromkeys(PARTS, 0.0)
    for event in events:
        taken[part_of(event, parts)] += event.self_device_time_total if on_gpu else event.self_cpu_time_total
    return taken


@contextmanager
def scopes() -> Iterator[None]:
    """Return a context in which each call of certain functions is a profiler scope.

    The functions are the methods that METHODS names, and the forward and backward functions of the matching.
    They are patched in the context.
    """
    modules = [matching_cpu, matching_plain]
    if TRITON and torch.cuda.is_available():
        from models.kernels import matching_gpu  # not at the top, because importing Triton takes a second

        modules.append(matching_gpu)
    halves = [(m, name, part) for m in modules for name, part in (("locate", FORWARD), ("spread", BACKWARD))]
    with ExitStack() as stack:
        for owner, name, part in METHODS + halves:
            stack.enter_context(patch.object(owner, name, scoped(getattr(owner, name), part)))
        yield


def scoped(function: Callable, part: str) -> Callable:
    """Return a function that calls `function` in a profiler scope named `part`."""

    @wraps(function)
    def within(*args: object, **kwargs: object) -> object:
        with record_function(part):
            return function(*args, **kwargs)

    return within


def forward_parts(events: list[FunctionEvent]) -> dict[int, str]:
    """Return a dictionary: number of a backward node -> part of the node's forward operation.

    An operation without a backward node has the number of the next node. So among operations with the same
    number, the last one belongs to the node.
    """
    forwards = [event for event in events if event.sequence_nr >= 0 and node_of(event) is None]
    forwards.sort(key=lambda event: event.time_range.start)
    return {event.sequence_nr: scope_of(event) for event in forwards}


def part_of(event: FunctionEvent, parts: dict[int, str]) -> str:
    """Return the part to which an operation belongs; `parts` is the result of `forward_parts`."""
    node = node_of(event)
    part = scope_of(event)
    if part == REST and node:
        part = parts.get(node.sequence_nr, REST)
        part = BACKWARD if part == FORWARD else part
    copying = any(above.name in COPYING for above in upwards(event))
    return COPIES if copying and part not in WHOLE else part


def scope_of(event: FunctionEvent) -> str:
    """Return the part of the innermost scope around an operation, or REST if there is none."""
    return next((above.name for above in upwards(event) if above.name in PARTS), REST)


def node_of(event: FunctionEvent) -> FunctionEvent | None:
    """Return the backward node that contains an operation, or None in the forward pass."""
    return next((above for above in upwards(event) if above.name.startswith(NODE)), None)


def upwards(event: FunctionEvent) -> Iterator[FunctionEvent]:
    """Yield an operation and then the operations that contain it, from the inside out."""
    above: FunctionEvent | None = event
    while above is not None:
        yield above
        above = above.cpu_parent
