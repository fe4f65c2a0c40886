"""Run the benchmarks that compare our code with a reference, and print a table of their times.

Our code and the reference run alternately in the same process. The table has the median time of both, and the
ratio. Before the timing, a check ensures that both sides give the same numbers. `python -m benchmarks
scoring` runs only the benchmark `scoring`. These benchmarks run only if they are named:

    scale          a dataset of 240,000 images, compared with a tenth of it (5 minutes)
    codecs         the feature store's codecs and shard sizes, compared with float32 .npy files (5 minutes)
    decoding_1000  decoding of 1,000 pairs (6 minutes)
    step           a whole training step (up to 10 minutes)
    clip_step      CLIP4IDC's step at the paper's size (5 minutes)
    growth         growth with pairs and tokens; writes growth.svg (4 minutes); prints its own table
    profile        parts of a training step's time (half a minute); prints its own table
"""

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import benchmarks.clip_step
import benchmarks.decoding
import benchmarks.growth
import benchmarks.matching
import benchmarks.pictures
import benchmarks.profiling
import benchmarks.reading
import benchmarks.scale
import benchmarks.scoring
import benchmarks.steps

ROUNDS = 7


def compare(
    name: str,
    ours: Callable[[], object],
    reference: Callable[[], object],
    against: str,
    rounds: int = ROUNDS,
) -> tuple[str, ...]:
    """Measure the time of both sides; return the table's row, with the medians and their ratio.

    The sides alternate, after a warm-up. `against` describes the reference.
    """
    mine, theirs = benchmarks.matching.seconds({"ours": ours, "reference": reference}, rounds).values()
    return name, against, f"{1000 * mine:.1f} ms", f"{1000 * theirs:.1f} ms", f"{theirs / mine:.1f}"


def reading(images: int = 512) -> list[tuple[str, ...]]:
    """Compare three readers: the time of reading a random batch of features from the page cache.

    A batch has the features, (1024, 14, 14), of 64 images.
    """
    with tempfile.TemporaryDirectory() as folder:
        store, files, plain_zarr = benchmarks.reading.sides(Path(folder), images)
        rows = np.random.default_rng(1).choice(images, benchmarks.reading.BATCH, replace=False)
        assert (store(rows) == files(rows)).all()
        assert (store(rows) == plain_zarr(rows)).all()
        name = f"read {len(rows)} images"
        return [
            compare(name, partial(store, rows), partial(files, rows), "one float32 .npy an image"),
            compare(name, partial(store, rows), partial(plain_zarr, rows), "zarr-python on the same store"),
        ]


def extraction(images: int = 96) -> list[tuple[str, ...]]:
    """Compare two times: extracting features from PNG files into a store, and running only the network."""
    with tempfile.TemporaryDirectory() as folder:
        whole, bare = benchmarks.pictures.sides(Path(folder), images)
        return [compare(f"extract {images} images, median of 5", whole, bare, "the network alone", 5)]


def decoding(
    pairs: int = 128, ends: tuple[float, ...] = benchmarks.decoding.ENDS, rounds: int = 3
) -> list[tuple[str, ...]]:
    """Compare our greedy decoding's time with that of a search that recomputes all words at every step."""
    return [
        compare(f"{name}, median of {rounds}", ours, reference, against, rounds)
        for name, ours, reference, against in benchmarks.decoding.cases(pairs, ends=ends)
    ]


def scoring(rounds: int = 3) -> list[tuple[str, ...]]:
    """Compare our time for scoring 8,000 captions (6 references each) with pycocoevalcap's time."""
    corpus = benchmarks.scoring.captions_of()
    benchmarks.scoring.check(*corpus)  # they must be equal to the last digit
    ours = partial(benchmarks.scoring.ours, *corpus)
    reference = partial(benchmarks.scoring.one_after_another, *corpus)
    name = f"score {len(corpus[0])} captions, median of {rounds}"
    return [compare(name, ours, reference, "pycocoevalcap, one after another", rounds)]


PARTS = {
    "reading": reading,
    "extraction": extraction,
    "matching": benchmarks.matching.rows,
    "decoding": decoding,
    "scoring": scoring,
}
NAMED_ONLY = {
    "step": benchmarks.steps.rows,
    "clip_step": benchmarks.clip_step.rows,
    "scale": benchmarks.scale.compare,
    "codecs": benchmarks.reading.codecs,
    "decoding_1000": partial(decoding, 1000, benchmarks.decoding.ENDS[:1], 1),
}
TABLES = {"growth": benchmarks.growth.table, "profile": benchmarks.profiling.table}


def main() -> None:
    chosen = sys.argv[1:] or list(PARTS)
    parts = PARTS | NAMED_ONLY
    known = [*parts, *TABLES]
    if unknown := [name for name in chosen if name not in known]:
        sys.exit(f"error: no benchmark is called {unknown[0]!r}; there are {', '.join(known)}")
    for name in chosen:
        if name in TABLES:
            Console().print(TABLES[name]())
    if rows := [row for name in chosen if name in parts for row in parts[name]()]:
        table = Table(title=f"{os.cpu_count()} cores, torch {torch.__version__}, medians of {ROUNDS}")
        for column in ("what", "reference", "ours", "reference's", "ratio"):
            table.add_column(column)
        for row in rows:
            table.add_row(*row)
        Console().print(table)
