"""Write a dataset in all published formats into one folder, completely or not at all.

Conversations are for training multimodal models. A conversation is a JSON object. Its key `images` has
the file names of the two images. Its key `messages` has a question about the images in this order, and
the answer. The answer is the first reference caption of the pair.

A WebDataset shard is a tar file with KEY.before.EXT, KEY.after.EXT and KEY.json for each pair. Tools
end a key at the first dot of a file name. So the key is a number without dots, and the pair id is in
the JSON.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pipeline.datasets.images import read_bytes
from pipeline.datasets.schema import Pair, images_of
from pipeline.io import front_matter
from pipeline.io.errors import InputError
from pipeline.io.outputs import Contents, replacing, write_json, write_json_lines
from pipeline.io.progress import track
from pipeline.publishing import croissant, rows
from pipeline.publishing.dataset import FOLDERS, Published

CONTENTS = Contents("published dataset")
CONVERSATIONS, SHARDS = "conversations", "webdataset"  # folders
TEMPLATE = Path(__file__).with_name("dataset_card.j2")
TAGS = ["change-captioning", "image-difference"]
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
PAIRS = 1000  # pairs per shard
QUESTION = (
    "The first image was taken before, the second image after a possible change. What changed? Answer in one "
    "sentence, and say so if nothing changed."
)


def write(dataset: Published, out: Path, with_shards: bool) -> None:
    """Write the folder `out`, with WebDataset shards if `with_shards`. Equal datasets give equal bytes.

    Raises InputError for an image that is missing, or that has changed since the dataset was prepared.
    """
    with replacing(out, CONTENTS) as folder:
        folder.mkdir()
        for name in (CONVERSATIONS, *([SHARDS] if with_shards else [])):
            (folder / name).mkdir()
        for split, pairs in dataset.splits.items():
            _write_split(dataset, split, pairs, folder, with_shards)
        write_json(folder / croissant.NAME, croissant.record(dataset, folder))
        (folder / "README.md").write_text(_card(dataset, with_shards), encoding="utf-8")


def _write_split(dataset: Published, split: str, pairs: list[Pair], folder: Path, with_shards: bool) -> None:
    names = images_of(pairs)
    for name in track(names, f"copying {split}", "images", len(names)):
        _copy(dataset, name, folder / split / name)

    def samples() -> Iterator[tuple[Pair, dict[str, Any]]]:
        return ((pair, rows.row_of(pair, dataset.seed, dataset.licence.name)) for pair in pairs)

    rows.write(folder / split / rows.NAME, (row for _, row in samples()))
    talks = (_conversation(pair, split) for pair in pairs)
    write_json_lines(folder / CONVERSATIONS / f"{split}.jsonl", talks)
    if with_shards:
        _write_shards(folder / SHARDS, split, folder / split, samples())


def _copy(dataset: Published, name: str, path: Path) -> None:
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


def _write_shards(
    folder: Path, split: str, images: Path, samples: Iterator[tuple[Pair, dict[str, Any]]]
) -> None:
    """Write the samples of a split as WebDataset shards into `folder`.

    A sample is a pair and its row of metadata. `images` is the folder with the images.
    """
    parts = iter(lambda: list(islice(samples, PAIRS)), [])
    for number, part in enumerate(parts):
        with tarfile.open(folder / f"{split}-{number:06d}.tar", "w") as shard:
            for key, (pair, row) in enumerate(part, number * PAIRS):
                for side, name in (("before", pair.before), ("after", pair.after)):
                    end = Path(name).suffix.lower() or ".img"
                    _add(shard, f"{key:08d}.{side}{end}", (images / name).read_bytes())
                _add(shard, f"{key:08d}.json", json.dumps(row, ensure_ascii=False).encode())


def _add(shard: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)  # without a time or an owner
    entry.size = len(data)
    shard.addfile(entry, io.BytesIO(data))


def _card(dataset: Published, with_shards: bool) -> str:
    count = len(dataset.pairs)
    values = front_matter.licence(dataset.licence.name) | {
        "pretty_name": dataset.card.name,
        "language": ["en"],
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
