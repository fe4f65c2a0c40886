"""Run every benchmark and print one table: both sides in one process, interleaved, medians, the ratio.

`python -m benchmarks scoring` runs those that are named. Before anything is timed, both sides must
give the same numbers. `scale` and `decoding_1000` take some five minutes each and run only where they
are named; the table of `scale` has a dataset of a tenth as the reference.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import zarr
from rich.console import Console
from rich.table import Table

import benchmarks.decoding
import benchmarks.scale
import benchmarks.scoring
from models.matching import token_matching
from pipeline.store import ARRAY, FeatureStore, Writer

ROUNDS = 7


def compare(
    name: str,
    ours: Callable[[], object],
    reference: Callable[[], object],
    against: str,
    rounds: int = ROUNDS,
) -> tuple[str, ...]:
    """A row: the median seconds of both sides, taken in turn after a warm-up, and their ratio."""
    seconds: dict[str, list[float]] = {"ours": [], "reference": []}
    for turn in range(rounds + 1):
        for side, function in (("ours", ours), ("reference", reference)):
            start = time.perf_counter()
            function()
            if turn:
                seconds[side].append(time.perf_counter() - start)
    mine, theirs = (statistics.median(seconds[side]) for side in ("ours", "reference"))
    return name, against, f"{1000 * mine:.1f} ms", f"{1000 * theirs:.1f} ms", f"{theirs / mine:.1f}"


def reading() -> list[tuple[str, ...]]:
    """Random batches of ReLU-like features 1024 x 14 x 14, from the page cache."""
    with tempfile.TemporaryDirectory() as folder:
        return _reading(Path(folder))


def _reading(folder: Path, images: int = 512, batch: int = 64) -> list[tuple[str, ...]]:
    random = np.random.default_rng(0)
    shape = (1024, 14, 14)
    writer = Writer(folder / "scratch", images, shape)
    for shard in writer.missing:
        rows = writer.rows(shard)
        grids = np.maximum(random.standard_normal((len(rows), *shape)), 0).astype(np.float16)
        writer.write(shard, grids)
        for row, grid in zip(rows, grids, strict=True):
            np.save(folder / f"{row}.npy", grid.astype(np.float32))
    writer.finish(folder / "s.zarr", {"keys": [str(row) for row in range(images)]})
    store, array = (
        FeatureStore(folder / "s.zarr", {}),
        zarr.open_array(folder / "s.zarr", path=ARRAY, mode="r"),
    )
    rows = random.choice(images, batch, replace=False)
    keys = [str(row) for row in rows]

    def files() -> np.ndarray:
        return np.stack([np.load(folder / f"{row}.npy") for row in rows])

    def plain_zarr() -> np.ndarray:
        return array.oindex[rows]

    assert (store.read(keys) == files()).all()
    assert (store.read(keys) == plain_zarr()).all()
    name = f"read {batch} images"
    return [
        compare(name, lambda: store.read(keys), files, "one float32 .npy an image"),
        compare(name, lambda: store.read(keys), plain_zarr, "zarr-python on the same store"),
    ]


def matching(pairs: int = 16, heads: int = 4, tokens: int = 196, width: int = 32) -> list[tuple[str, ...]]:
    """Forward and backward in float32, against autograd through the whole similarity tensor."""
    q, k = (torch.randn(pairs, heads, tokens, width, requires_grad=True) for _ in range(2))

    def whole() -> tuple[torch.Tensor, ...]:
        e = torch.einsum("bhnd,ahmd->bahnm", q, k)
        return torch.autograd.grad(((e.amax(-1).mean(-1) + e.amax(-2).mean(-1)) / 2).sum(), (q, k))

    def ours() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(token_matching(q, k).sum(), (q, k))

    for mine, theirs in zip(ours(), whole(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    return [compare(f"matching, {pairs} pairs, {heads} heads", ours, whole, "the whole similarity tensor")]


def decoding(
    pairs: int = 128, ends: tuple[float, ...] = benchmarks.decoding.ENDS, rounds: int = 3
) -> list[tuple[str, ...]]:
    """Greedy captions, against recomputing all words at every step."""
    return [
        compare(f"{name}, median of {rounds}", ours, reference, against, rounds)
        for name, ours, reference, against in benchmarks.decoding.cases(pairs, ends=ends)
    ]


def scoring(rounds: int = 3) -> list[tuple[str, ...]]:
    """8,000 captions by 6 references each, against the same scorers one after another."""
    corpus = benchmarks.scoring.captions_of()
    benchmarks.scoring.check(*corpus)  # to the last digit
    ours = partial(benchmarks.scoring.ours, *corpus)
    reference = partial(benchmarks.scoring.one_after_another, *corpus)
    name = f"score {len(corpus[0])} captions, median of {rounds}"
    return [compare(name, ours, reference, "pycocoevalcap, one after another", rounds)]


PARTS = {"reading": reading, "matching": matching, "decoding": decoding, "scoring": scoring}
NAMED_ONLY = {
    "scale": benchmarks.scale.compare,
    "decoding_1000": partial(decoding, 1000, benchmarks.decoding.ENDS[:1], 1),
}


def main() -> None:
    chosen = sys.argv[1:] or list(PARTS)
    parts = PARTS | NAMED_ONLY
    if unknown := [name for name in chosen if name not in parts]:
        sys.exit(f"error: no benchmark is called {unknown[0]!r}; there are {', '.join(parts)}")
    table = Table(title=f"{os.cpu_count()} cores, torch {torch.__version__}, medians of {ROUNDS}")
    for column in ("what", "reference", "ours", "reference's", "ratio"):
        table.add_column(column)
    for name in chosen:
        for row in parts[name]():
            table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
