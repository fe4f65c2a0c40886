"""How fast matching and training step are: beside the plainest way, compiled, and as a batch grows."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch

from benchmarks import alone, gpu_correctness, training
from benchmarks.alone import shown
from benchmarks.gpu_found import RIGHT, Found, Size, beside, measured
from benchmarks.training import ALIKE, TYPES, Case, fits
from pipeline.compute import devices

MATCHED = 5  # times all similarities: what the reference's matching holds at once


def matchings(size: Size) -> Iterator[Found]:
    """Forward and backward, per head and summed, against einsum and max in float32."""
    for mtm in ("per_head", "summed"):
        case = Case(size.model, mtm, size.scenes, size.grid)
        theirs = (
            measured(alone.call("matching", "reference", "float32", case)) if fits(case, MATCHED) else None
        )
        for dtype in TYPES:
            mine = measured(alone.call("matching", "ours", dtype, case))
            what = f"matching, {mtm}, {dtype}, B={case.scenes}, N={case.grid**2}"
            yield beside(what, mine, theirs, 10, 1 / 20)


def steps(size: Size) -> Iterator[Found]:
    """The whole step; where the reference has no room for the batch, both also at the largest that it has."""
    kinds = (("per_head", "paper"), ("summed", "released"), ("summed", "paper"))
    for mtm, variant in kinds:
        whole = Case(size.model, mtm, size.scenes, size.grid, variant)
        case = whole
        while not fits(case) and case.scenes > 1:
            case = replace(case, scenes=case.scenes // 2)
        theirs = measured(training.step("reference", "float32", case))
        for dtype in TYPES:
            mine = measured(training.step("ours", dtype, case))
            yield beside(_step(case, dtype), mine, theirs, 10, 1 / 8)
            if case != whole:
                yield beside(_step(whole, dtype), measured(training.step("ours", dtype, whole)), None, None)


def _step(case: Case, dtype: str) -> str:
    return f"step, {case.variant}, {case.mtm}, {dtype}, {case.scenes} scenes"


def compiled(size: Size) -> Iterator[Found]:
    """`train.compile`: the same numbers; seconds of a step, and of the first one; the same bits twice."""
    yield _compiled_right(Case(size.model, "per_head", 4, size.grid), size.compiler)
    for mtm, variant in (("per_head", "paper"), ("summed", "released")):
        case = Case(size.model, mtm, size.scenes, size.grid, variant)
        plain = measured(training.step("ours", TYPES[-1], case))
        run = training.ours(case, TYPES[-1])
        run.compile(size.compiler)
        start = time.perf_counter()
        step = partial(run.step, training.ready(case), 0)
        first = _once(step)
        mine = measured(step)
        found = beside(f"{_step(case, TYPES[-1])}: compiled against not", mine, plain, None)
        found.numbers |= {"first": first, "all": time.perf_counter() - start}
        found.ours += f"; the first {shown(first)}"
        yield found
    same = [gpu_correctness.weights(case, TYPES[-1], 1, size.compiler) for _ in range(2)]
    assert same[0] == same[1], same
    yield Found("4 compiled steps, twice", "the same bytes", goal=RIGHT, reached=True)


def _compiled_right(case: Case, compiler: str) -> Found:
    """Losses and gradients of a whole batch and of a smaller one, without dropout, in float32."""
    plain, run = (training.ours(case, "float32", 0.0, ALIKE) for _ in range(2))
    run.compile(compiler)
    for iteration, scenes in enumerate((case.scenes, case.scenes - 1)):
        batch = training.ready(replace(case, scenes=scenes))
        losses = [each.step(batch, iteration) for each in (run, plain)]
        torch.testing.assert_close(*losses, rtol=1e-3, atol=1e-3)
        flat = [torch.cat([p.grad.flatten() for p in each.model.parameters()]) for each in (run, plain)]
        cosine = float(torch.nn.functional.cosine_similarity(*flat, dim=0))
        assert cosine > 0.999, cosine
    what = f"compiled against not, {case.scenes} and then {case.scenes - 1} scenes, float32"
    return Found(what, f"losses within 1e-3, gradients' cosine {cosine:.6f}", goal=RIGHT, reached=True)


def _once(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    training.finished(function)()
    return time.perf_counter() - start


def growth(size: Size) -> Iterator[Found]:
    """Steps a second and memory as the batch grows, in `auto` precision, beside B²N²D through the first."""
    cases = [Case(size.model, "per_head", scenes, size.grid) for scenes in size.growing]
    first: alone.Measured | None = None
    for case in cases:
        mine = measured(training.step("ours", "auto", case))
        first = first or mine
        what = f"step, {devices.precision('auto', devices.device())}, {case.scenes} scenes"
        if mine is None or first is None:
            yield Found(what, "no memory")
            return
        ratio = (case.scenes / cases[0].scenes) ** 2  # N and D are the same
        line = alone.Measured(round(first.bytes * ratio), first.seconds * ratio)
        ours = f"{1 / mine.seconds:.2f} steps/s, {mine}"
        numbers = {"seconds": mine.seconds, "bytes": mine.bytes}
        yield Found(what, ours, f"B²N²D: {line}", numbers=numbers)
