"""Fill a store's missing shards from a stream of features; writing overlaps with making them."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from pipeline.progress import track
from pipeline.store import Writer

Grids = Callable[[Sequence[int]], Iterator[np.ndarray]]
"""Rows of the store -> their features (float16 C x H x W), one after the other."""


def fill(
    writer: Writer,
    shards: Sequence[int],
    grids: Grids,
    write: Callable[[int, np.ndarray], None],
    description: str,
) -> None:
    """Hand these shards' features (images x C x H x W) to `write`, in order, with progress.

    Raises what `grids` and `write` raise; shards written until then are kept by the writer.
    """
    rows = [row for shard in shards for row in writer.rows(shard)]
    others = sum(len(writer.rows(shard)) for shard in writer.missing) - len(rows)
    shown = track(
        grids(rows), description, "images", writer.images - others, writer.images - others - len(rows)
    )
    writing: Future[None] | None = None
    with ThreadPoolExecutor(1) as background:
        for shard in shards:
            block = _block(writer, shard, shown)
            if writing is not None:
                writing.result()
            writing = background.submit(write, shard, block)
        if writing is not None:
            writing.result()
    for _ in shown:  # nothing is left; this lets the bar come to its end
        pass


def _block(writer: Writer, shard: int, grids: Iterator[np.ndarray]) -> np.ndarray:
    """A shard's features, copied together as they come, so that batches need not wait in memory."""
    block = np.empty((len(writer.rows(shard)), *writer.shape), np.float16)
    for row in block:
        row[...] = next(grids)
    return block
