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
from pipeline.io.outputs import write_json
from pipeline.io.records import read_record

REMEDY = "run `dvc repro prepare` to make it"
AGAIN = "run `dvc repro prepare` to make both again"
LeftOut = dict[str, dict[str, tuple[str, ...]]]
"""Split -> id of a pair that `prepare` left out -> names of its images."""
PAIRS, INDEX, IMAGES = "pairs", "index", "images"  # keys in `hashes`


@dataclass(frozen=True)
class Manifest:
    """Settings, inputs and counts of the run that prepared a dataset's pairs."""

    reader: str
    protocol: str | None  # which definition of test items and references; None if there is only one
    files: dict[str, str]  # annotation file, relative to the dataset's root -> sha256
    counts: dict[str, Any]  # pairs, captions, ... of each split
    hashes: dict[str, str] = field(default_factory=dict)  # of PAIRS, INDEX, IMAGES; empty in older files
    left_out: LeftOut = field(default_factory=dict)  # published pairs without a reference

    @property
    def references(self) -> str:
        return self.reader if self.protocol is None else f"{self.reader}, protocol {self.protocol}"

    def check_split(self, pairs: Sequence[Pair], split: str, path: str | Path) -> None:
        """Raise InputError if the number of pairs of a split differs from the manifest's."""
        expected_count = self.counts.get(split, {}).get("pairs", len(pairs))
        if expected_count != len(pairs):
            raise InputError(
                f"{path} has {len(pairs):,} pairs of the split {split}, and its manifest says "
                f"{expected_count:,}; {AGAIN}"
            )


def hashes(pairs: Path, index: Path) -> dict[str, str]:
    """Return the hashes of the file of pairs (PAIRS), the image index (INDEX) and all images (IMAGES)."""
    image_hashes = {image.name: image.sha256 for image in images.read_index(index)}
    return {
        PAIRS: content_hashes.file_hash(pairs),
        INDEX: content_hashes.file_hash(index),
        IMAGES: images.identity(image_hashes),
    }


def write(path: str | Path, manifest: Manifest) -> None:
    """Write the manifest as JSON, with a hash of itself."""
    record = asdict(manifest)
    hashes = record.pop("hashes")
    write_json(path, content_hashes.with_hashes(record, hashes))


def read(path: str | Path) -> Manifest:
    """Return the manifest in a file. Raises InputError if the file is invalid or was edited afterwards."""
    manifest = read_record(path, Manifest, REMEDY)
    content_hashes.read(path, REMEDY)
    return manifest


def left_out(path: Path | None, split: str) -> dict[str, tuple[str, ...]]:
    return {} if path is None else read(path).left_out.get(split, {})


def path_of(pairs: str | Path) -> Path | None:
    """Return the path of the manifest next to a file of pairs; None if this manifest does not exist."""
    path = Path(pairs).with_suffix(".manifest.json")
    return path if path.is_file() else None


def read_pairs(path: str | Path) -> list[Pair]:
    """Return the prepared pairs in a file. Raises InputError if its hash differs from the manifest's."""
    pairs = schema.read_pairs(path)
    if manifest_path := path_of(path):
        check_files(manifest_path, read(manifest_path), path)
    return pairs


def check_files(path: Path, manifest: Manifest, pairs: str | Path, index: str | Path | None = None) -> None:
    """Raise InputError if the pairs or the image index differ from `manifest`, read from `path`."""
    content_hashes.verify(path, manifest.hashes, AGAIN, pairs=pairs, index=index)


def check_images(pairs: str | Path, name: str, identity: str | None) -> None:
    """Raise InputError if the feature store `name` was made from other images; `identity` may be None."""
    if not (path := path_of(pairs)) or identity is None:
        return
    if read(path).hashes.get(IMAGES, identity) != identity:
        raise InputError(
            f"{name} has features of other images than {path}; run `dvc repro extract` to make it again"
        )
