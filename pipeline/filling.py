"""Fill a store's missing shards from a stream of features; writing overlaps with making them."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from pipeline.progress import track
from pipeline.store import Writer

Grids = Callable[[Sequence[int]], Iterator[np.ndarray]]
"""Rows of the store -> their features (float16 C x H x W), one after the other."""


def fill(writer: Writer, grids: Grids, write: Callable[[int, np.ndarray], None], description: str) -> None:
    """Hand every missing shard's features (images x C x H x W) to `write`, in order, with progress.

    Raises what `grids` and `write` raise; shards written until then are kept by the writer.
    """
    missing = writer.missing
    rows = [row for shard in missing for row in writer.rows(shard)]
    shown = track(grids(rows), description, "images", writer.images, writer.images - len(rows))
    writing: Future[None] | None = None
    with ThreadPoolExecutor(1) as background:
        for shard in missing:
            block = np.stack([next(shown) for _ in writer.rows(shard)])
            if writing is not None:
                writing.result()
            writing = background.submit(write, shard, block)
        if writing is not None:
            writing.result()
    for _ in shown:  # nothing is left; this lets the bar come to its end
        pass
