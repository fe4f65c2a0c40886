"""Run one row of `python -m benchmarks gpu`; append a line to DIR/rows.jsonl for each result.

`python -m benchmarks.gpu_rows ROW DIR [--small]`

The reference's step is measured in three ways: in float32, with TF32 products (the default of the authors'
torch 1.8), and with autocast to bfloat16.
"""

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

# must be set before CUDA starts, as in pipeline/compute/devices.py
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import Tensor

from benchmarks import extraction, gpu, matching, training
from benchmarks.measures import Call, Measured, call_and_wait, measured, ratio, seconds
from benchmarks.training import LONGEST, WORDS, Case, fits
from models.kernels import matching_plain
from models.kernels.matching import implementation
from pipeline.compute import devices
from pipeline.datasets import clevr_change
from pipeline.datasets.images import Indexed
from pipeline.datasets.schema import of_split
from pipeline.features.extraction import GPU_BATCH
from pipeline.features.store import FeatureStore
from pipeline.text import vocabularies
from pipeline.training import compiling
from pipeline.training.loop import Training
from pipeline.training.sampling import Sampler, training_batches

RIGHT = "right"  # goal of a check of correctness
GOAL = 0.06  # seconds of an iteration: 10,000 iterations in 10 minutes
FASTEST = training.TYPES[-1]
PRODUCTS = ("float32", "TF32", "bfloat16 autocast")  # precisions of the reference
SHAPES = {  # B, A, h, N, M, d
    "a paper's head": (2, 3, 8, 196, 196, 64),
    "summed heads": (2, 2, 1, 196, 196, 512),
    "784 tokens": (1, 2, 2, 784, 784, 64),
    "one wide head": (2, 1, 1, 196, 196, 72),
    "few against many": (2, 3, 2, 5, 300, 7),
    "many against few": (1, 2, 1, 530, 33, 16),
    "one of each": (1, 1, 1, 1, 1, 1),
}
ROUNDING = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}  # tolerance of gradients
MATCHED = 5  # memory of the reference's matching, in multiples of all similarities


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
class Result:
    """A line of the table that `python -m benchmarks gpu` writes."""

    what: str
    ours: str
    reference: str = ""
    ratio: str = ""
    goal: str = ""
    reached: bool | None = None


def compared(what: str, ours: Measured | None, reference: Measured | None) -> Result:
    """Return the table's line that compares our measurement with the reference's; None: memory ran out."""
    return Result(what, str(ours or "no memory"), str(reference or "no memory"), ratio(ours, reference))


def passed(what: str, text: str) -> Result:
    """Return the line of the table for a check that has passed."""
    return Result(what, text, goal=RIGHT, reached=True)


def kernels(size: Size) -> Iterator[Result]:
    """Check the device's matching against plain torch."""
    for dtype, rounding in ROUNDING.items():
        for shape in SHAPES.values():
            _check(*_operands(*shape, dtype), rounding)
        kernel = implementation(*_operands(*SHAPES["a paper's head"], dtype)[:2]).__name__.rpartition(".")[2]
        text = f"{kernel}: all {len(SHAPES)} shapes the same places, gradients within {rounding:g}"
        yield passed(f"matching in {dtype} against plain torch: ties, odd sizes, 196 and 784 tokens", text)


def _operands(
    B: int, A: int, h: int, N: int, M: int, d: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries and keys for a matching, and a random gradient of its result, on the device.

    Queries and keys are small integers, so products are exact and there are many ties. Their strides are
    those of the models' projections.
    """
    generator, device = torch.Generator().manual_seed(0), devices.device()
    operands = (torch.randint(-2, 3, shape, generator=generator) for shape in ((B, N, h, d), (A, M, h, d)))
    q, k = (x.to(dtype).transpose(1, 2).to(device) for x in operands)
    return q, k, torch.randn(B, A, h, generator=generator).to(device)


def _check(q: Tensor, k: Tensor, grad: Tensor, rounding: float) -> None:
    module = implementation(q, k)
    (values, *kept_places), (expected, *expected_places) = module.locate(q, k), matching_plain.locate(q, k)
    places = kept_places or module.places(q, k)
    torch.testing.assert_close(values, expected.float(), rtol=1e-5, atol=1e-5)
    assert all(torch.equal(x, y) for x, y in zip(places, expected_places, strict=True))
    gradients, again = (module.spread(grad, q, k, *kept_places) for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(gradients, again, strict=True))
    for x, y in zip(gradients, matching_plain.spread(grad, q, k, *expected_places), strict=True):
        torch.testing.assert_close(x, y, rtol=rounding, atol=rounding * float(y.float().abs().max()))


def types(size: Size) -> Iterator[Result]:
    """Check a training step against the reference: losses and gradients in float32, losses in bfloat16."""
    cases = [Case(size.model, "per_head", 4, size.grid), Case(size.model, "summed", 4, size.grid)]
    for case in (*cases, replace(cases[1], variant="released")):
        training.check(case)
        text = "losses within 1e-4, gradients 3e-2 of the norm"
        text += "; in bfloat16 losses within 3e-2" if "bfloat16" in training.TYPES else ""
        yield passed(f"a step of scorer_cbr, {case.mtm}, {case.variant}, against the plainest one", text)


def determinism(size: Size) -> Iterator[Result]:
    """Check that training steps with equal seeds give equal weights, and that another seed changes them."""
    case = Case(size.model, "per_head", min(size.scenes, 32), size.grid)
    for dtype in training.TYPES:
        one, again, other = (_weights(case, dtype, seed) for seed in (1, 1, 2))
        assert one == again != other, (one, again, other)
        yield passed(f"4 steps in {dtype}, twice", f"the same bytes ({one[:8]}); another seed's differ")


def _weights(case: Case, dtype: str, seed: int) -> str:
    """Return a hash of the weights after 4 training steps."""
    devices.repeatable()
    loop, batch = training.our_training(case, dtype), training.batch(case)
    loop.seed = seed
    for iteration in range(4):
        loop.step(batch, iteration)
    digest = hashlib.sha256()
    for tensor in loop.model.state_dict().values():
        digest.update(tensor.cpu().numpy().tobytes())
    return digest.hexdigest()


def matchings(size: Size) -> Iterator[Result]:
    """Compare our matching, forward and backward, with a reference (einsum and max, float32).

    Two cases of our matching are measured. In the first, all image pairs have a gradient. In the second, one
    pair in twenty has a gradient, as in training.
    """
    for mtm in ("per_head", "summed"):
        case = Case(size.model, mtm, size.scenes, size.grid)
        reference = measured(matching.call("reference", "float32", case)) if fits(case, MATCHED) else None
        for dtype in training.TYPES:
            for share in (1.0, 0.05):
                ours = measured(matching.call("ours", dtype, case, share))
                what = f"matching, {mtm}, {dtype}, B={case.scenes}, N={case.grid**2}, {share:.0%} of pairs"
                yield compared(what, ours, reference)


def as_trained(case: Case, words: int = WORDS, longest: int = LONGEST) -> Training:
    """Return our training loop as stages.train sets it up: deterministic algorithms, compiled pieces."""
    devices.repeatable()
    loop = training.our_training(case, FASTEST, words=words, longest=longest)
    compiling.compile_pieces(loop.model, compiling.backend("auto", loop.device))
    return loop


def steps(size: Size) -> Iterator[Result]:
    """Measure the training step on random features: the slowest case, because all pairs have a gradient."""
    for mtm, variant in (("summed", "released"), ("per_head", "paper")):
        case = Case(size.model, mtm, size.scenes, size.grid, variant)
        name = f"step as trained, {variant}, {mtm}, {FASTEST}"
        ours = measured(_step(case))
        yield Result(f"{name}, {case.scenes} scenes", str(ours or "no memory"))
        while not fits(case) and case.scenes > 1:
            case = replace(case, scenes=case.scenes // 2)
        ours = measured(_step(case))
        for products in PRODUCTS:
            with multiplying(products):
                reference = measured(training.step("reference", "float32", case))
            yield compared(f"{name}, {case.scenes} scenes; the reference in {products}", ours, reference)


def _step(case: Case) -> Call:
    return partial(as_trained(case).step, training.batch_on_device(case), 0)


@contextmanager
def multiplying(products: str) -> Iterator[None]:
    """Give float32 products a precision within a context. `products` is one of PRODUCTS."""
    try:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = products == "TF32"
        with torch.autocast(devices.device().type, torch.bfloat16, enabled=products == "bfloat16 autocast"):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def extracted(size: Size) -> Iterator[Result]:
    """Measure the extraction of ResNet-101's features from PNG files, and training on the stored features."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "raw"
        index = extraction.render(root, max(size.rendered, 6 * size.scenes))
        # this warms up libraries
        store = extraction.store(Path(folder), extraction.untrained_extractor(root, index))
        images = index * (-(-size.images[-1] // len(index)))
        for count in size.images:
            rate = count / _stored(root, images[:count])
            text = f"{rate:,.0f} images/s with {os.cpu_count()} cores"
            what = f"PNG files to a store, {count:,} images"
            yield Result(what, text, goal="≥ 4,000 images/s", reached=rate >= 4000)
        extractor = extraction.untrained_extractor(root, images)
        side = extraction.SPEC.size
        batch = torch.randint(0, 256, (GPU_BATCH, 3, side, side), dtype=torch.uint8)
        network = torch.inference_mode()(partial(extractor.network, batch.to(extractor.device)))
        rate = GPU_BATCH / seconds({"": network}, 5)[""]
        yield Result(f"the network alone, batches of {GPU_BATCH}", f"{rate:,.0f} images/s")
        yield from trained(root, store, size)


def _stored(root: Path, images: list[Indexed]) -> float:
    """Extract the features of images into a store. Return the seconds, including the start of processes."""
    extractor, start = extraction.untrained_extractor(root, images), time.perf_counter()
    extraction.into_store(root.parent / "scratch", extractor)
    return time.perf_counter() - start


def trained(root: Path, store: FeatureStore, size: Size) -> Iterator[Result]:
    """Measure training on stored features of the rendered images in `root`.

    The time includes reading the features and copying them to the device. The first `size.warm` iterations
    are not timed, because gradients become sparse only in the course of training.
    """
    pairs = of_split(clevr_change.read(root), "train")
    captions = [caption for pair in pairs for caption in pair.captions]
    vocabulary = vocabularies.build(captions, 1, True, None)
    for variant, mtm in (("paper", "per_head"), ("released", "summed")):
        case = Case(size.model, mtm, size.scenes, store.shape[-1], variant)
        loop = as_trained(case, len(vocabulary), vocabulary.longest)
        settings = {"batch": size.scenes, "references": 1, "exchange": True}
        sampler = Sampler(pairs, settings, seed=1)
        batches = enumerate(training_batches(sampler, store, vocabulary, range(size.warm + size.timed)))
        for _ in range(size.warm):
            iteration, batch = next(batches)
            call_and_wait(partial(loop.step, batch, iteration))
        start = time.perf_counter()
        for iteration, batch in batches:
            loop.step(batch, iteration)
        call_and_wait(lambda: None)
        step_time = (time.perf_counter() - start) / size.timed
        text = f"{1000 * step_time:.1f} ms an iteration, 10,000 in {10_000 * step_time / 60:.1f} minutes"
        what = f"training, {variant}, {FASTEST}, {size.scenes} scenes, read from a store"
        yield Result(what, text, goal=f"≤ {GOAL * 1000:.0f} ms", reached=step_time <= GOAL)


ROWS = {"kernels": kernels, "types": types, "determinism": determinism}
ROWS |= {"matching": matchings, "step": steps, "images": extracted}


def main() -> None:
    torch.backends.cudnn.allow_tf32 = False  # float32 is float32 on both sides
    row, out = sys.argv[1], Path(sys.argv[2])
    size = SMALL if "--small" in sys.argv else FULL
    for result in ROWS[row](size):
        if result.goal != RIGHT and not torch.cuda.is_available():
            result.reached = None  # the goals are a GPU's
        gpu.append(out, {"row": row} | asdict(result))


if __name__ == "__main__":
    main()
