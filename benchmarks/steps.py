"""Compare time and memory of a training step of `scorer_cbr` with a reference in float32.

A step is a forward pass, a backward pass and Adam.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks import alone, matching, reading, reference
from benchmarks.alone import Measured
from benchmarks.training import TYPES, Case, batch, check, finished, fits, ours, step, theirs
from pipeline.training.sampling import Batch


def rows(scenes: int | None = None, rounds: int = 2, size: str = "papers") -> Iterator[tuple[str, ...]]:
    """Yield the table's rows, for batches of 32 scenes, or 128 on a GPU.

    There are three cases, in float32 and bfloat16: the matching per head, the variant `released`, and the
    matching summed over heads. The last case is also measured with the reading of features.
    """
    scenes = scenes or (128 if torch.cuda.is_available() else 32)
    for mtm, variant in (("per_head", "paper"), ("summed", "released"), ("summed", "paper")):
        case = Case(size, mtm, scenes, variant=variant)
        check(replace(case, scenes=min(scenes, 4)))
        yield from _rows(case, rounds)
    with tempfile.TemporaryDirectory() as folder:
        yield _with_reading(Path(folder), case, rounds)


def _rows(case: Case, rounds: int) -> Iterator[tuple[str, ...]]:
    """Yield a row for our training step in float32, and another in bfloat16 if the device supports it.

    The sides alternate. The reference, in float32, is left out if it does not fit into memory.
    """
    kinds = {dtype: ("ours", dtype) for dtype in TYPES}
    if fits(case):
        kinds["reference"] = "reference", "float32"
    risen = {name: alone.measure("step", *kind, case) for name, kind in kinds.items()}
    kinds = {name: kind for name, kind in kinds.items() if risen[name]}  # those with enough memory
    took = matching.seconds({name: finished(step(*kind, case)) for name, kind in kinds.items()}, rounds)
    both = {name: Measured(risen[name].bytes, took[name]) for name in kinds}
    against = f"all similarities at once, float32, median of {rounds}"
    for dtype in TYPES:
        theirs = both.get("reference")
        ratio = alone.ratio(both[dtype], theirs) if theirs else "–"
        yield _name(case, dtype), against, str(both[dtype]), str(theirs or "–"), ratio


def _name(case: Case, dtype: str) -> str:
    what = "released variant" if case.variant == "released" else case.mtm.replace("_", " ")
    return f"training step, {what}, {dtype}, {case.scenes} scenes (2 pairs each)"


def _with_reading(folder: Path, case: Case, rounds: int) -> tuple[str, ...]:
    """Measure a training step that first reads its features from files; return the table's row."""
    whole = batch(case)
    store = reading.write(folder / "s.zarr", whole.images.numpy())[0]
    reading.files(folder, whole.images.numpy())
    training, keys = ours(case, TYPES[-1]), [str(row) for row in range(len(whole.images))]

    def step_with_reading() -> Tensor:
        return training.step(replace(whole, images=torch.from_numpy(store.read(keys))), 0)

    kinds = {"ours": step_with_reading}
    if fits(case):
        kinds["reference"] = _reading_files(case, whole, folder)
    took = matching.seconds({name: finished(function) for name, function in kinds.items()}, rounds)
    ratio = f"{took['reference'] / took['ours']:.1f}" if "reference" in took else "–"
    theirs = alone.shown(took["reference"]) if "reference" in took else "–"
    against = f"one float32 .npy an image of each pair, median of {rounds}"
    return f"{_name(case, TYPES[-1])}, and reading", against, alone.shown(took["ours"]), theirs, ratio


def _reading_files(case: Case, whole: Batch, folder: Path) -> Callable[[], Tensor]:
    plain = theirs(case)[1]
    chunks = [x.chunk(whole.parts) for x in (whole.before, whole.after, whole.tokens)]

    def read(rows: Tensor) -> Tensor:
        return torch.from_numpy(reference.load_files(folder, np.array(rows)))

    return lambda: plain([(read(b), read(a), tokens) for b, a, tokens in zip(*chunks, strict=True)])
