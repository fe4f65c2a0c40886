"""The manifest of a prepared dataset: its reader, protocol, annotation files, counts and hashes.

The manifest is DATASET.manifest.json, next to the pairs in DATASET.jsonl. Its hashes are of the file of
pairs, the image index, and all images.
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
    """Settings, inputs and counts of the run that prepared a dataset's pairs."""

    reader: str
    protocol: str | None  # which definition of test items and references; None if there is only one
    files: dict[str, str]  # annotation file, relative to the dataset's root -> sha256
    counts: dict[str, Any]  # pairs, captions, ... of each split
    hashes: dict[str, str] = field(default_factory=dict)  # of PAIRS, INDEX, IMAGES; empty in older files

    @property
    def references(self) -> str:
        """Text that identifies the references in files of scores.

        It is the reader's name, followed by the protocol if there is one.
        """
        return self.reader if self.protocol is None else f"{self.reader}, protocol {self.protocol}"

    def check_split(self, pairs: Sequence[Pair], split: str, path: str | Path) -> None:
        """Raise InputError unless the file `path` has as many pairs of the split as the manifest says."""
        counted = self.counts.get(split, {}).get("pairs", len(pairs))
        if counted != len(pairs):
            raise InputError(
                f"{path} has {len(pairs):,} pairs of the split {split}, and its manifest says {counted:,}; "
                f"{AGAIN}"
            )


def hashes(pairs: Path, index: Path) -> dict[str, str]:
    """Return the hashes of a manifest, with the keys PAIRS, INDEX and IMAGES."""
    found = {each.name: each.sha256 for each in images.read_index(index)}
    return {
        PAIRS: content_hashes.file_hash(pairs),
        INDEX: content_hashes.file_hash(index),
        IMAGES: images.identity(found),
    }


def write(path: str | Path, manifest: Manifest) -> None:
    """Write the manifest as JSON, with a hash of itself."""
    record = asdict(manifest)
    own = record.pop("hashes")
    write_json(path, content_hashes.with_hashes(record, own) if own else record)


def read(path: str | Path) -> Manifest:
    """Return the manifest in a file. Raises InputError if the file is invalid or was edited afterwards."""
    found = read_record(path, Manifest, REMEDY)
    content_hashes.read(path, read_json(path, REMEDY), REMEDY)
    return found


def beside(pairs: str | Path) -> Path | None:
    """Return the path of the manifest next to a file of pairs; None if this manifest does not exist."""
    path = Path(pairs).with_suffix(".manifest.json")
    return path if path.is_file() else None


def read_pairs(path: str | Path) -> list[Pair]:
    """Return the prepared pairs in a file. Raises InputError if its hash differs from the manifest's."""
    found = schema.read_pairs(path)
    if record := beside(path):
        check_files(record, read(record), path)
    return found


def check_files(path: Path, known: Manifest, pairs: str | Path, index: str | Path | None = None) -> None:
    """Raise InputError if the hash of the pairs or of the image index differs from the hash in `known`.

    `path` is the file of the manifest `known`.
    """
    for name, file in ((PAIRS, pairs), (INDEX, index)):
        if file is not None:
            content_hashes.check(path, known.hashes, name, file, AGAIN)


def check_images(pairs: str | Path, name: str, identity: str | None) -> None:
    """Raise InputError if the feature store `name` was made from other images than the pairs' images.

    `identity` is the hash of the store's images (images.identity), or None if it is unknown.
    """
    if not (record := beside(pairs)) or identity is None:
        return
    if read(record).hashes.get(IMAGES, identity) != identity:
        raise InputError(
            f"{name} has features of other images than {record}; run `dvc repro extract` to make it again"
        )
