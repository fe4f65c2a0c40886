"""Run one row of `python -m benchmarks gpu`; print a line of JSON for each result.

`python -m benchmarks.gpu_rows ROW [--small]`
"""

import hashlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

# must be set before CUDA starts, as in pipeline/compute/devices.py
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import Tensor

from benchmarks import alone, gpu_steps, pictures, training
from benchmarks.gpu_measures import FULL, RIGHT, SMALL, Found, Size, beside, measured, median
from benchmarks.training import Case, fits
from models.kernels import matching_plain
from models.kernels.matching import implementation
from pipeline.compute import devices
from pipeline.datasets.images import Indexed
from pipeline.features.extraction import GPU_BATCH

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
ROUNDING = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}  # tolerance of gradients
MATCHED = 5  # memory of the reference's matching, in multiples of all similarities


def kernels(size: Size) -> Iterator[Found]:
    """Check the device's matching against plain torch."""
    for dtype, rounding in ROUNDING.items():
        for shape in SHAPES.values():
            _check(*_operands(*shape, dtype), rounding)
        used = implementation(*_operands(*SHAPES["a paper's head"], dtype)[:2]).__name__.rpartition(".")[2]
        said = f"{used}: all {len(SHAPES)} shapes the same places, gradients within {rounding:g}"
        yield _right(f"matching in {dtype} against plain torch: ties, odd sizes, 196 and 784 tokens", said)


def _operands(
    B: int, A: int, h: int, N: int, M: int, d: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries and keys for a matching, and a random gradient of its result, on the device.

    Queries and keys are small integers, so products are exact and there are many ties. Their strides are
    those of the models' projections.
    """
    random, on = torch.Generator().manual_seed(0), devices.device()
    made = (torch.randint(-2, 3, shape, generator=random) for shape in ((B, N, h, d), (A, M, h, d)))
    q, k = (x.to(dtype).transpose(1, 2).to(on) for x in made)
    return q, k, torch.randn(B, A, h, generator=random).to(on)


def _check(q: Tensor, k: Tensor, grad: Tensor, rounding: float) -> None:
    module = implementation(q, k)
    (found, *kept), (expected, *where) = module.locate(q, k), matching_plain.locate(q, k)
    places = kept or module.places(q, k)
    torch.testing.assert_close(found, expected.float(), rtol=1e-5, atol=1e-5)
    assert all(torch.equal(x, y) for x, y in zip(places, where, strict=True))
    gradients, again = (module.spread(grad, q, k, *kept) for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(gradients, again, strict=True))
    for x, y in zip(gradients, matching_plain.spread(grad, q, k, *where), strict=True):
        torch.testing.assert_close(x, y, rtol=rounding, atol=rounding * float(y.float().abs().max()))


def types(size: Size) -> Iterator[Found]:
    """Check a training step against the reference: losses and gradients in float32, losses in bfloat16."""
    cases = [Case(size.model, "per_head", 4, size.grid), Case(size.model, "summed", 4, size.grid)]
    for case in (*cases, replace(cases[1], variant="released")):
        training.check(case)
        said = "losses within 1e-4, gradients 3e-2 of the norm"
        said += "; in bfloat16 losses within 3e-2" if "bfloat16" in training.TYPES else ""
        yield _right(f"a step of scorer_cbr, {case.mtm}, {case.variant}, against the plainest one", said)


def determinism(size: Size) -> Iterator[Found]:
    """Check that steps with the same seed give equal weights, and with another seed different weights."""
    case = Case(size.model, "per_head", min(size.scenes, 32), size.grid)
    for dtype in training.TYPES:
        one, again, other = (_weights(case, dtype, seed) for seed in (1, 1, 2))
        assert one == again != other, (one, again, other)
        yield _right(f"4 steps in {dtype}, twice", f"the same bytes ({one[:8]}); another seed's differ")


def _weights(case: Case, dtype: str, seed: int) -> str:
    """Return a hash of the weights after 4 training steps."""
    devices.repeatable()
    run, batch = training.ours(case, dtype), training.batch(case)
    run.seed = seed
    for iteration in range(4):
        run.step(batch, iteration)
    found = hashlib.sha256()
    for tensor in run.model.state_dict().values():
        found.update(tensor.cpu().numpy().tobytes())
    return found.hexdigest()


def matchings(size: Size) -> Iterator[Found]:
    """Compare the matching, forward and backward, with a reference of einsum and max in float32.

    There are two measurements: with a gradient for every pair of images, as for random images, and with a
    gradient for one pair in twenty, as in training.
    """
    for mtm in ("per_head", "summed"):
        case = Case(size.model, mtm, size.scenes, size.grid)
        plain = (
            measured(alone.call("matching", "reference", "float32", case)) if fits(case, MATCHED) else None
        )
        for dtype in training.TYPES:
            for share in (1.0, 0.05):
                mine = measured(alone.call("matching", "ours", dtype, case, share))
                what = f"matching, {mtm}, {dtype}, B={case.scenes}, N={case.grid**2}, {share:.0%} of pairs"
                yield beside(what, mine, plain)


def extracted(size: Size) -> Iterator[Found]:
    """Measure the extraction of ResNet-101's features from PNG files, and training on the stored features."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "raw"
        index = pictures.render(root, max(size.rendered, 6 * size.scenes))
        store = pictures.store(Path(folder), pictures.extractor(root, index))  # a warm-up of libraries, too
        images = index * (-(-size.images[-1] // len(index)))
        for count in size.images:
            whole = count / stored(root, images[:count])
            what, said = f"PNG files to a store, {count:,} images", f"{whole:,.0f} images/s"
            yield Found(
                what, f"{said} with {os.cpu_count()} cores", goal="≥ 4,000 images/s", reached=whole >= 4000
            )
        extractor = pictures.extractor(root, images)
        side = pictures.SPEC.size
        ready = torch.randint(0, 256, (GPU_BATCH, 3, side, side), dtype=torch.uint8)
        seconds = median(torch.inference_mode()(partial(extractor.network, ready.to(extractor.device))))
        yield Found(f"the network alone, batches of {GPU_BATCH}", f"{GPU_BATCH / seconds:,.0f} images/s")
        yield from gpu_steps.trained(root, store, size)


def stored(root: Path, images: list[Indexed]) -> float:
    """Extract the features of images into a store; return the time in seconds.

    The time includes the start of the processes that decode images.
    """
    extractor, start = pictures.extractor(root, images), time.perf_counter()
    pictures.into_store(root.parent / "scratch", extractor)
    return time.perf_counter() - start


def _right(what: str, said: str) -> Found:
    """Return the line of the table for a check that has passed."""
    return Found(what, said, goal=RIGHT, reached=True)


ROWS: dict[str, Callable[[Size], Iterator[Found]]]
ROWS = {"kernels": kernels, "types": types, "determinism": determinism, "matching": matchings}
ROWS |= {"step": gpu_steps.steps, "images": extracted}


def main() -> None:
    threading.Thread(target=_follow, daemon=True).start()
    # output of libraries goes to standard error
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # float32 is float32 on both sides
    torch.backends.cudnn.allow_tf32 = False
    size = SMALL if "--small" in sys.argv else FULL
    for found in ROWS[sys.argv[1]](size):
        if found.goal != RIGHT and not torch.cuda.is_available():
            found.reached = None  # the goals are a GPU's
        print(json.dumps(asdict(found), ensure_ascii=False), file=lines, flush=True)


def _follow() -> None:
    """Wait until the process that started this one is killed; then end the process group."""
    os.read(0, 1)  # waits until the pipe closes, because nothing is ever written to it
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    main()
