"""Write a dataset in all published formats into one folder, completely or not at all.

Conversations are for training multimodal models. A conversation is a JSON object. Its key `images` has
the file names of the two images. Its key `messages` has a question about the images in this order, and
the answer. The answer is the first reference caption of the pair.
"""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.datasets.images import read_bytes
from pipeline.datasets.schema import Pair, images_of
from pipeline.io import front_matter
from pipeline.io.errors import InputError
from pipeline.io.outputs import Contents, replacing, write_json, write_json_lines
from pipeline.io.progress import track
from pipeline.publishing import croissant, rows, shards
from pipeline.publishing.dataset import FOLDERS, PublishedDataset

CONTENTS = Contents("published dataset")
CONVERSATIONS, SHARDS = "conversations", "webdataset"  # folders
TEMPLATE = Path(__file__).with_name("dataset_card.j2")
TAGS = ["change-captioning", "image-difference"]
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
QUESTION = (
    "The first image was taken before, the second image after a possible change. What changed? Answer in one "
    "sentence, and say so if nothing changed."
)


def write(dataset: PublishedDataset, out: Path, with_shards: bool) -> None:
    """Write the folder `out`, with WebDataset shards if `with_shards`. Equal datasets give equal bytes."""
    with replacing(out, CONTENTS) as folder:
        folder.mkdir()
        for name in (CONVERSATIONS, *([SHARDS] if with_shards else [])):
            (folder / name).mkdir()
        for split, pairs in dataset.splits.items():
            _write_split(dataset, split, pairs, folder)
        if with_shards:
            _write_shards(dataset, folder)
        write_json(folder / croissant.NAME, croissant.record(dataset, folder))
        (folder / "README.md").write_text(_card(dataset, with_shards), encoding="utf-8")


def _write_split(dataset: PublishedDataset, split: str, pairs: list[Pair], folder: Path) -> None:
    names = images_of(pairs)
    for name in track(names, f"copying {split}", "images", len(names)):
        _copy(dataset, name, folder / split / name)
    rows.write(folder / split / rows.NAME, map(_row_of(dataset), pairs))
    talks = (_conversation(pair, split) for pair in pairs)
    write_json_lines(folder / CONVERSATIONS / f"{split}.jsonl", talks)


def _row_of(dataset: PublishedDataset) -> shards.RowOf:
    return partial(rows.row_of, seed=dataset.seed, licence=dataset.licence.name)


def _write_shards(dataset: PublishedDataset, folder: Path) -> None:
    row_of = _row_of(dataset)
    needed, end = shards.required_paths(dataset.pairs, row_of), shards.ending(dataset.pairs)
    for split, pairs in dataset.splits.items():
        shards.write(folder / SHARDS, split, pairs, row_of, folder / split, needed, end)


def _copy(dataset: PublishedDataset, name: str, path: Path) -> None:
    data = read_bytes(dataset.root / name)
    if (indexed := dataset.images.get(name)) is None or hashlib.sha256(data).hexdigest() != indexed.sha256:
        raise InputError(
            f"{dataset.root / name} changed since {dataset.name} was prepared; {dataset.prepare_again}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _conversation(pair: Pair, folder: str) -> dict[str, Any]:
    question = [{"type": "image"}, {"type": "image"}, {"type": "text", "text": QUESTION}]
    answer = [{"type": "text", "text": pair.captions[0]}]
    return {
        "id": pair.pair_id,
        "images": [f"{folder}/{pair.before}", f"{folder}/{pair.after}"],
        "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}],
        "references": list(pair.captions),
    }


def _card(dataset: PublishedDataset, with_shards: bool) -> str:
    count = len(dataset.pairs)
    values = front_matter.licence(dataset.licence.name) | {
        "pretty_name": dataset.card.name,
        **({"language": list(dataset.languages)} if dataset.languages else {}),
        "task_categories": ["image-to-text"],
        "tags": TAGS,
        "size_categories": [next((name for most, name in SIZES if count < most), "n>1M")],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": split, "path": f"{split}/**"} for split in dataset.splits],
            }
        ],
    }
    return front_matter.card(
        values,
        TEMPLATE,
        dataset=dataset,
        counts=dataset.manifest.counts,
        folders=FOLDERS,
        metadata=rows.NAME,
        conversations=CONVERSATIONS,
        shards=SHARDS if with_shards else None,
    )
