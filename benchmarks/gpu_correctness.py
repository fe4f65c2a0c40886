"""Is what a GPU computes right? Kernels, types, several processes, and that two runs give the same bits."""

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import Tensor, distributed

from benchmarks import training
from benchmarks.gpu_found import RIGHT, Found, Size, median
from benchmarks.training import ALIKE, Case
from models import matching_plain
from models.matching import implementation, token_matching
from pipeline.compute import devices
from pipeline.training.gradient_all_reduce import add_gradients
from pipeline.training.loop import Training

SHAPES = {  # B, A, h, N, M, d
    "a paper's head": (2, 3, 8, 196, 196, 64),
    "summed heads": (2, 2, 1, 196, 196, 512),
    "784 tokens": (1, 2, 2, 784, 784, 64),
    "one wide head": (2, 1, 1, 196, 196, 72),
    "few against many": (2, 3, 2, 5, 300, 7),
    "many against few": (1, 2, 1, 530, 33, 16),
    "one of each": (1, 1, 1, 1, 1, 1),
}
TYPES = (torch.float32, torch.float16, torch.bfloat16)
ROUNDING = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}  # of a gradient's last bit


def kernels(size: Size) -> Iterator[Found]:
    """The device's matching against plain torch: whole numbers, whose products are exact and ties many."""
    for dtype in TYPES:
        for shape in SHAPES.values():
            _check(_operands(*shape, dtype), ROUNDING[dtype])
        q = _operands(*SHAPES["a paper's head"], dtype)[0]
        used = implementation(q).__name__.rpartition(".")[2]
        kind = str(dtype).removeprefix("torch.")
        what = f"matching in {kind} against plain torch: ties, odd sizes, 196 and 784 tokens"
        yield _right(
            what, f"{used}: all {len(SHAPES)} shapes the same places, gradients within {ROUNDING[dtype]:g}"
        )
    yield _right("gradients of the matching by finite differences (gradcheck, float64)", _gradcheck())
    error = max(_random(shape) for shape in SHAPES.values())
    yield _right(
        "float32, random numbers, gradients against plain float64", f"within {error:.1e} of the norm"
    )


def _operands(
    B: int, A: int, h: int, N: int, M: int, d: int, dtype: torch.dtype, whole: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries and keys, strided as the models' projections are, and a gradient, on the device."""
    random = torch.Generator().manual_seed(0)
    shapes = (B, N, h, d), (A, M, h, d)
    made = [
        torch.randint(-2, 3, s, generator=random) if whole else torch.randn(s, generator=random)
        for s in shapes
    ]
    on = devices.device()
    q, k = (x.to(dtype).transpose(1, 2).to(on) for x in made)
    return q, k, torch.randn(B, A, h, generator=random).to(on)


def _check(operands: tuple[Tensor, Tensor, Tensor], rounding: float) -> None:
    q, k, grad = operands
    module = implementation(q)
    (found, *places), (expected, *where) = module.locate(q, k), matching_plain.locate(q, k)
    torch.testing.assert_close(found, expected.float(), rtol=1e-5, atol=1e-5)
    assert all(torch.equal(x, y) for x, y in zip(places, where, strict=True))
    gradients, again = (module.spread(grad, q, k, *places) for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(gradients, again, strict=True))
    for x, y in zip(gradients, matching_plain.spread(grad, q, k, *where), strict=True):
        torch.testing.assert_close(x, y, rtol=rounding, atol=rounding * float(y.float().abs().max()))


def _gradcheck() -> str:
    q, k, _ = _operands(2, 3, 2, 5, 7, 4, torch.float64, whole=False)
    assert torch.autograd.gradcheck(token_matching, (q.requires_grad_(), k.requires_grad_()))
    return "right"


def _random(shape: tuple[int, ...]) -> float:
    """How far gradients in float32 are from plain float64's, along the places that both share."""
    q, k, grad = _operands(*shape, torch.float32, whole=False)
    _, *places = implementation(q).locate(q, k)
    mine = implementation(q).spread(grad, q, k, *places)
    theirs = matching_plain.spread(grad.double(), q.double(), k.double(), *places)
    errors = [float((x - y).norm() / y.norm()) for x, y in zip(mine, theirs, strict=True)]
    assert max(errors) < 1e-5, errors
    return max(errors)


def types(size: Size) -> Iterator[Found]:
    """A step against the plainest one: losses and all gradients in float32, losses in bfloat16."""
    cases = [Case(size.model, "per_head", 4, size.grid), Case(size.model, "summed", 4, size.grid)]
    for case in (*cases, replace(cases[1], variant="released")):
        training.check(case)
        said = "losses within 1e-4, gradients 3e-2 of the norm"
        said += "; in bfloat16 losses within 3e-2" if "bfloat16" in training.TYPES else ""
        yield _right(f"a step of scorer_cbr, {case.mtm}, {case.variant}, against the plainest one", said)
    if "bfloat16" in training.TYPES:
        yield _right("gradients of a step in bfloat16 against float32", f"cosine {_cosine(cases[0]):.5f}")


def _cosine(case: Case) -> float:
    """Of all gradients of a step without dropout."""
    flat = []
    for dtype in ("float32", "bfloat16"):
        step = training.ours(case, dtype, 0.0, ALIKE)
        step.step(training.batch(case), 0)
        flat.append(torch.cat([p.grad.flatten() for p in step.model.parameters() if p.grad is not None]))
    cosine = float(torch.nn.functional.cosine_similarity(*flat, dim=0))
    assert cosine > 0.98, cosine
    return cosine


def added_gradients(size: Size) -> Iterator[Found]:
    """`add_gradients`: alone it does nothing; two processes on the device find the same sum."""
    case = Case(size.model, "per_head", 4, size.grid)
    run = training.ours(case, "float32")
    run.step(training.batch(case), 0)
    before = [p.grad.clone() for p in run.model.parameters() if p.grad is not None]
    add_gradients(run.model.parameters())
    after = [p.grad for p in run.model.parameters() if p.grad is not None]
    assert all(torch.equal(x, y) for x, y in zip(before, after, strict=True))
    seconds = median(partial(add_gradients, run.model.parameters()))
    said = f"the same bits, {1e6 * seconds:.0f} µs"
    yield _right("add_gradients alone", said, seconds=seconds)
    numbers = sum(x.numel() for x in before)
    with tempfile.TemporaryDirectory() as folder:
        _spawned(_adding, 2, Path(folder), numbers)
        sums = [torch.load(Path(folder) / f"{rank}.pt", weights_only=True) for rank in range(2)]
    assert all(torch.equal(x, y) for x, y in zip(sums[0]["sum"], sums[1]["sum"], strict=True))
    taken = max(each["seconds"] for each in sums)
    said = f"the same bits in both, {1e3 * taken:.1f} ms"
    yield _right(f"add_gradients of {numbers:,} numbers, two processes by gloo", said, seconds=taken)


def _adding(rank: int, folder: Path, numbers: int) -> None:
    store = distributed.FileStore(str(folder / "store"), 2)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    parameters = [torch.zeros(n, device=devices.device()) for n in (numbers - 10, 10)]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 3.0**rank)
    add_gradients(parameters)
    assert all(bool((p.grad == 4).all()) for p in parameters if p.grad is not None)
    added = [p.grad[-10:].cpu() for p in parameters if p.grad is not None]
    seconds = median(partial(add_gradients, parameters))
    torch.save({"sum": added, "seconds": seconds}, folder / f"{rank}.pt")
    distributed.destroy_process_group()


def determinism(size: Size) -> Iterator[Found]:
    """Steps of a seed in this process and in another end in the same bytes; of another seed they do not."""
    case = Case(size.model, "per_head", min(size.scenes, 32), size.grid)
    for dtype in training.TYPES:
        here = weights(case, dtype, 1)
        with tempfile.TemporaryDirectory() as folder:
            _spawned(_elsewhere, 1, Path(folder), case, dtype)
            there = (Path(folder) / "0").read_text()
        assert here == there, (here, there)
        assert here != weights(case, dtype, 2)
        yield _right(
            f"4 steps in {dtype}, in two processes", f"the same bytes ({here[:8]}); another seed's differ"
        )


def weights(case: Case, dtype: str, seed: int, compiler: str | None = None) -> str:
    """A hash of the weights after 4 steps."""
    devices.repeatable()
    run = training.ours(case, dtype)
    run.seed = seed
    run.compile(compiler)
    return digest(run, case)


def digest(run: Training, case: Case, steps: int = 4) -> str:
    """A hash of the weights after so many more steps."""
    batch = training.batch(case)
    for iteration in range(steps):
        run.step(batch, iteration)
    found = hashlib.sha256()
    for tensor in run.model.state_dict().values():
        found.update(tensor.cpu().numpy().tobytes())
    return found.hexdigest()


def _elsewhere(rank: int, folder: Path, case: Case, dtype: str) -> None:
    (folder / str(rank)).write_text(weights(case, dtype, 1))


def _spawned(function: object, world: int, *arguments: object) -> None:
    """function(rank, *arguments) in so many processes; all must end well."""
    context = get_context("spawn")
    processes = [context.Process(target=function, args=(rank, *arguments)) for rank in range(world)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * world


def _right(what: str, said: str, **numbers: float) -> Found:
    """A check that was passed: one that is not ends the row with its error."""
    return Found(what, said, goal=RIGHT, reached=True, numbers=numbers)
