"""The features of pairs, batch after batch in their order, read ahead: for decoding."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from pipeline.datasets.schema import Pair
from pipeline.features.store import FeatureStore
from pipeline.prefetch import prefetch


def feature_batches(
    pairs: Sequence[Pair], store: FeatureStore, batch: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Before and after features of the pairs in order, `batch` at a time, read ahead."""
    starts = range(0, len(pairs), batch)
    return prefetch(lambda start: _features(store, pairs[start : start + batch]), starts, threads=1, ahead=2)


def _features(store: FeatureStore, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
    grids = torch.from_numpy(store.read([name for pair in pairs for name in (pair.before, pair.after)]))
    return grids[0::2], grids[1::2]
