"""The manifest of a prepared dataset: its reader, protocol, annotation files, counts and hashes.

DATASET.manifest.json is next to DATASET.jsonl. It has the hashes of the pairs, of the image index, and of the
images; `read_pairs` and `check_images` compare them.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pipeline.datasets import images, schema
from pipeline.datasets.schema import Pair
from pipeline.io import content_hashes
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.io.outputs import write_json
from pipeline.io.records import read_record

REMEDY = "run `dvc repro prepare` to make it"
AGAIN = "run `dvc repro prepare` to make both again"
PAIRS, INDEX, IMAGES = "pairs", "index", "images"  # keys in `hashes`


@dataclass(frozen=True)
class Manifest:
    """Record of how a dataset's pairs were made."""

    reader: str
    protocol: str | None  # defines a test item's references, if the dataset has several definitions
    files: dict[str, str]  # annotation file, relative to the dataset's root -> sha256
    counts: dict[str, Any]  # pairs, captions, ... of each split
    hashes: dict[str, str] = field(default_factory=dict)  # of PAIRS, INDEX, IMAGES; empty in older files

    @property
    def references(self) -> str:
        """Name of the references in the scores."""
        return self.reader if self.protocol is None else f"{self.reader}, protocol {self.protocol}"

    def check_split(self, pairs: Sequence[Pair], split: str, path: str | Path) -> None:
        """Raise InputError unless `path` has as many pairs of the split as were prepared."""
        counted = self.counts.get(split, {}).get("pairs", len(pairs))
        if counted != len(pairs):
            raise InputError(
                f"{path} has {len(pairs):,} pairs of the split {split}, and its manifest says {counted:,}; "
                f"{AGAIN}"
            )


def hashes(pairs: Path, index: Path) -> dict[str, str]:
    """Return the hashes of a dataset's two files, and of its images by name."""
    found = {each.name: each.sha256 for each in images.read_index(index)}
    return {
        PAIRS: content_hashes.file_hash(pairs),
        INDEX: content_hashes.file_hash(index),
        IMAGES: images.identity(found),
    }


def write(path: str | Path, manifest: Manifest) -> None:
    """Write the manifest as JSON. If it has hashes, its own hash is added."""
    record = asdict(manifest)
    own = record.pop("hashes")
    write_json(path, content_hashes.with_hashes(record, own) if own else record)


def read(path: str | Path) -> Manifest:
    """Read a manifest. Raises InputError if the file is no manifest, or was changed since it was written."""
    found = read_record(path, Manifest, REMEDY)
    content_hashes.read(path, read_json(path, REMEDY), REMEDY)
    return found


def beside(pairs: str | Path) -> Path | None:
    """Return the manifest next to a file of pairs; None if there is none."""
    path = Path(pairs).with_suffix(".manifest.json")
    return path if path.is_file() else None


def read_pairs(path: str | Path) -> list[Pair]:
    """Read prepared pairs. Raises InputError if their hash is not the one in the manifest."""
    found = schema.read_pairs(path)
    if record := beside(path):
        check_files(record, read(record), path)
    return found


def check_files(path: Path, known: Manifest, pairs: str | Path, index: str | Path | None = None) -> None:
    """Raise InputError if the pairs, or an index of images, differ from the manifest at `path`."""
    content_hashes.check(path, known.hashes, PAIRS, pairs, AGAIN)
    if index is not None:
        content_hashes.check(path, known.hashes, INDEX, index, AGAIN)


def check_images(pairs: str | Path, name: str, identity: str | None) -> None:
    """Raise InputError if the store `name` has features of other images than the pairs' images.

    `identity`: the store's images.identity; None if unknown.
    """
    if not (record := beside(pairs)) or identity is None:
        return
    if read(record).hashes.get(IMAGES, identity) != identity:
        raise InputError(
            f"{name} has features of other images than {record}; run `dvc repro extract` to make it again"
        )
