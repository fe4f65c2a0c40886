"""Write a dataset in all published formats into one folder, completely or not at all."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.datasets.images import read_bytes
from pipeline.datasets.schema import Pair, images_of
from pipeline.io.errors import InputError
from pipeline.io.outputs import Contents, replacing, write_json, write_json_lines
from pipeline.io.progress import track
from pipeline.publishing import conversations, croissant, dataset_card, metadata, shards
from pipeline.publishing.dataset import Published
from pipeline.publishing.rows import row_of

CONTENTS = Contents("published dataset")
CARD = "README.md"


def write(dataset: Published, out: Path, with_shards: bool) -> None:
    """Write the folder `out`, with WebDataset shards if `with_shards`. Equal datasets give equal bytes.

    Raises InputError for an image that is missing, or that has changed since the dataset was prepared.
    """
    with replacing(out, CONTENTS) as folder:
        folder.mkdir()
        for name in (conversations.FOLDER, *([shards.FOLDER] if with_shards else [])):
            (folder / name).mkdir()
        for split, pairs in dataset.splits.items():
            _write_split(dataset, split, pairs, folder, with_shards)
        write_json(folder / croissant.NAME, croissant.record(dataset, folder))
        (folder / CARD).write_text(dataset_card.text(dataset, with_shards), encoding="utf-8")


def _write_split(dataset: Published, split: str, pairs: list[Pair], folder: Path, with_shards: bool) -> None:
    names = images_of(pairs)
    for name in track(names, f"copying {split}", "images", len(names)):
        _copy(dataset, name, folder / split / name)

    def rows() -> Iterator[tuple[Pair, dict[str, Any]]]:
        return ((pair, row_of(pair, dataset.seed, dataset.licence.name)) for pair in pairs)

    metadata.write(folder / split / metadata.NAME, (row for _, row in rows()))
    talks = (conversations.of_pair(pair, split) for pair in pairs)
    write_json_lines(folder / conversations.FOLDER / f"{split}.jsonl", talks)
    if with_shards:
        shards.write(folder / shards.FOLDER, split, folder / split, rows())


def _copy(dataset: Published, name: str, path: Path) -> None:
    data = read_bytes(dataset.root / name)
    if (known := dataset.images.get(name)) is None or hashlib.sha256(data).hexdigest() != known.sha256:
        raise InputError(
            f"{dataset.root / name} has changed since the dataset was prepared; run "
            f"`dvc repro prepare@{dataset.name}`"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
