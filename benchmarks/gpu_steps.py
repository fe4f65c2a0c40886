"""Rows of `python -m benchmarks gpu` about training: a single training step, and training on stored features.

The reference's step is measured in three ways: in float32, with TF32 products (the default of the authors'
torch 1.8), and with autocast to bfloat16.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks import training
from benchmarks.gpu_measures import Found, Size, beside, measured
from benchmarks.training import LONGEST, WORDS, Case, fits
from pipeline.compute import devices
from pipeline.datasets import clevr_change
from pipeline.datasets.schema import of_split
from pipeline.features.store import FeatureStore
from pipeline.text import vocabularies
from pipeline.training import compiling
from pipeline.training.loop import Training
from pipeline.training.sampling import Batch, Sampler, training_batches

GOAL = 0.06  # seconds: 10,000 iterations in 10 minutes
PRODUCTS = ("float32", "TF32", "bfloat16 autocast")  # precisions of the reference


def as_trained(case: Case, dtype: str, words: int = WORDS, longest: int = LONGEST) -> Training:
    """Return our training loop as stages.train sets it up: deterministic algorithms, compiled pieces."""
    devices.repeatable()
    found = training.ours(case, dtype, words=words, longest=longest)
    found.compile(compiling.backend("auto", found.device))
    return found


def steps(size: Size) -> Iterator[Found]:
    """Measure the training step on random features.

    This is the slowest case, because all pairs of images have a gradient.
    """
    for mtm, variant in (("summed", "released"), ("per_head", "paper")):
        case = Case(size.model, mtm, size.scenes, size.grid, variant)
        mine = measured(_ours(case, training.TYPES[-1]))
        yield Found(_name(case, training.TYPES[-1]), str(mine or "no memory"))
        while not fits(case) and case.scenes > 1:
            case = replace(case, scenes=case.scenes // 2)
        mine = measured(_ours(case, training.TYPES[-1]))
        for products in PRODUCTS:
            with multiplying(products):
                plain = measured(_reference(case, products))
            yield beside(f"{_name(case, training.TYPES[-1])}; the reference in {products}", mine, plain)


def _ours(case: Case, dtype: str) -> Callable[[], object]:
    run, whole = as_trained(case, dtype), training.ready(case)
    return lambda: run.step(whole, 0)


def _reference(case: Case, products: str) -> Callable[[], object]:
    step = training.step("reference", "float32", case)

    def within() -> object:
        with torch.autocast(devices.device().type, torch.bfloat16, enabled=products == PRODUCTS[2]):
            return step()

    return within


@contextmanager
def multiplying(products: str) -> Iterator[None]:
    """Return a context in which float32 products use TF32 if `products` is "TF32"."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = products == PRODUCTS[1]
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def _name(case: Case, dtype: str) -> str:
    return f"step as trained, {case.variant}, {case.mtm}, {dtype}, {case.scenes} scenes"


def trained(root: Path, store: FeatureStore, size: Size) -> Iterator[Found]:
    """Measure training on the stored features of the rendered images in `root`.

    The time includes reading the features and copying them to the device.
    """
    pairs = of_split(clevr_change.read(root), "train")
    captions = [caption for pair in pairs for caption in pair.captions]
    words = vocabularies.build(captions, 1, True, None)
    for variant, mtm in (("paper", "per_head"), ("released", "summed")):
        case = Case(size.model, mtm, size.scenes, store.shape[-1], variant)
        run = as_trained(case, training.TYPES[-1], len(words), words.longest)
        drawn = Sampler(pairs, size.scenes, 1, True)
        batches = training_batches(drawn, store, words, range(size.warm + size.timed))
        seconds = _seconds(run, batches, size)
        said = f"{1000 * seconds:.1f} ms an iteration, 10,000 in {10_000 * seconds / 60:.1f} minutes"
        what = f"training, {variant}, {training.TYPES[-1]}, {size.scenes} scenes, read from a store"
        yield Found(what, said, goal=f"≤ {GOAL * 1000:.0f} ms", reached=seconds <= GOAL)


def _seconds(run: Training, batches: Iterator[Batch], size: Size) -> float:
    """Return the mean time of an iteration in seconds.

    The first `size.warm` iterations do not count, because gradients become sparse only in training.
    """
    start = 0.0
    for iteration, batch in enumerate(batches):
        if iteration == size.warm:
            _wait()
            start = time.perf_counter()
        run.step(batch, iteration)
    _wait()
    return (time.perf_counter() - start) / size.timed


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
