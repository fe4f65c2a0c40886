"""Write the pairs of a split as WebDataset shards.

A shard is a tar file with KEY.before.EXT, KEY.after.EXT and KEY.json for each pair. Tools end a key at the
first dot of a file name. So the key is a number without dots, and the pair id is in the JSON.

The call `datasets.load_dataset("webdataset", ...)` takes the types of all columns from the first five pairs
of the first shard. Later values of another type are refused, or lose their fractions. So the first five pairs
of a split together have a value in each column, boxes are always fractional numbers, and all images of a
dataset have one ending.
"""

import io
import json
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pipeline.datasets.schema import Pair
from pipeline.publishing import unknown_values

PAIRS = 1000  # pairs per shard
FIRST = 5  # pairs from which the loader takes the types
RowOf = Callable[[Pair], dict[str, Any]]


def ending(pairs: Iterable[Pair]) -> str:
    """Return the ending for all images in the shards: the commonest one. Tools decode by content."""
    names = [name for pair in pairs for name in (pair.before, pair.after)]
    return Counter(Path(name).suffix.lower() or ".img" for name in names).most_common(1)[0][0]


def required_paths(pairs: Iterable[Pair], row_of: RowOf) -> set[str]:
    """Return all paths of known columns, which each split needs so that all have equal types."""
    columns = {path.split("/")[1] for path in _known_paths(pairs, row_of)}
    unknown = {key: value for key, value in unknown_values.UNKNOWN.items() if key in columns}
    return set(unknown_values.paths_of(unknown))


def _known_paths(pairs: Iterable[Pair], row_of: RowOf) -> set[str]:
    return {path for pair in pairs for path in unknown_values.paths_of(row_of(pair))}


def write(
    folder: Path, split: str, pairs: Sequence[Pair], row_of: RowOf, images: Path, needed: set[str], end: str
) -> None:
    """Write the shards of a split into `folder`; `end`: ending of the images' names in the shards.

    needed: result of `required_paths`. If no pair of this split has a value at such a path, the first pair
        gets one that means "unknown".
    """
    order = _types_first(pairs, row_of)
    missing = needed - _known_paths(pairs, row_of)
    for number, start in enumerate(range(0, len(order), PAIRS)):
        with tarfile.open(folder / f"{split}-{number:06d}.tar", "w") as shard:
            for key, pair in enumerate(order[start : start + PAIRS], start):
                for side, name in (("before", pair.before), ("after", pair.after)):
                    _add(shard, f"{key:08d}.{side}{end}", (images / name).read_bytes())
                row = unknown_values.filled(row_of(pair), missing) if key == 0 else row_of(pair)
                _add(shard, f"{key:08d}.json", json.dumps(row, ensure_ascii=False).encode())


def _types_first(pairs: Sequence[Pair], row_of: RowOf) -> list[Pair]:
    """Return the pairs, beginning with up to FIRST pairs that together have all paths of the split."""
    first_with: dict[frozenset[str], int] = {}  # paths of a row -> the first pair with these paths
    for index, pair in enumerate(pairs):
        first_with.setdefault(frozenset(unknown_values.paths_of(row_of(pair))), index)
    open_paths = set().union(*first_with)
    chosen: list[int] = []
    while open_paths and len(chosen) < FIRST:
        paths = max(first_with, key=lambda each: (len(each & open_paths), -first_with[each]))
        chosen.append(first_with[paths])
        open_paths -= paths
    others = [pair for index, pair in enumerate(pairs) if index not in chosen]
    return [*(pairs[index] for index in sorted(chosen)), *others]


def _add(shard: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)  # without a time or an owner
    entry.size = len(data)
    shard.addfile(entry, io.BytesIO(data))
