"""Run every benchmark and print one table: both sides in one process, interleaved, medians, the ratio.

`python -m benchmarks scoring` runs those that are named. Before anything is timed, both sides must
give the same numbers. `scale` takes some five minutes and runs only where it is named; its table has
a dataset of a tenth as the reference.
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

import benchmarks.matching
import benchmarks.scale
import benchmarks.scoring
from models import Sizes, build
from pipeline.decoding import NEVER, greedy
from pipeline.store import ARRAY, FeatureStore, Writer
from pipeline.text import END, NULL, START

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


@torch.inference_mode()
def decoding(pairs: int = 64) -> list[tuple[str, ...]]:
    """Greedy captions of 24 tokens, against recomputing all words at every step."""
    sizes = Sizes(1024, (14, 14), 76, 24, 512, 8, 2, 2, 300)
    model = build("rr", sizes, {"dropout": 0.1}).eval()
    memory = torch.randn(pairs, 196, 512)

    def uncached() -> torch.Tensor:
        tokens = torch.full((pairs, 1), START)
        while tokens.shape[1] < sizes.longest:
            padded = torch.cat([tokens, torch.full((pairs, 1), NULL)], 1)
            logits = model.decoder(padded, memory).logits[:, -1]
            logits[:, NEVER] = -torch.inf
            tokens = torch.cat([tokens, logits.argmax(-1)[:, None]], 1)
        ended = (tokens == END).cumsum(1).roll(1, 1).bool()
        ended[:, 0] = False
        return tokens.masked_fill(ended, NULL)[:, 1:]

    found = greedy(model, memory)
    assert torch.equal(found, uncached()[:, : found.shape[1]])
    return [
        compare(f"decode {pairs} pairs", lambda: greedy(model, memory), uncached, "no cached keys, values")
    ]


def scoring(rounds: int = 3) -> list[tuple[str, ...]]:
    """8,000 captions by 6 references each, against the same scorers one after another."""
    corpus = benchmarks.scoring.captions_of()
    benchmarks.scoring.check(*corpus)  # to the last digit
    ours = partial(benchmarks.scoring.ours, *corpus)
    reference = partial(benchmarks.scoring.one_after_another, *corpus)
    name = f"score {len(corpus[0])} captions, median of {rounds}"
    return [compare(name, ours, reference, "pycocoevalcap, one after another", rounds)]


PARTS = {"reading": reading, "matching": benchmarks.matching.rows, "decoding": decoding, "scoring": scoring}
NAMED_ONLY = {"scale": benchmarks.scale.compare}


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
