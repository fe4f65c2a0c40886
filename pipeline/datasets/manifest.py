"""The manifest of a prepared dataset: which reader, protocol and files it comes from, and its counts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.datasets.schema import Pair
from pipeline.errors import InputError
from pipeline.outputs import write_json
from pipeline.records import read_record

REMEDY = "run `dvc repro prepare` to make it"


@dataclass(frozen=True)
class Manifest:
    """How a dataset's pairs came about."""

    reader: str
    protocol: str | None  # which references a test item has, where a dataset is scored in several ways
    files: dict[str, str]  # annotation file, relative to the dataset's root -> sha256
    counts: dict[str, Any]  # pairs, captions, … of each split

    @property
    def references(self) -> str:
        """What the scores call their references."""
        return self.reader if self.protocol is None else f"{self.reader}, protocol {self.protocol}"

    def check_split(self, pairs: Sequence[Pair], split: str, path: str | Path) -> None:
        """Raise InputError where `path` does not hold as many pairs of the split as were prepared."""
        counted = self.counts.get(split, {}).get("pairs", len(pairs))
        if counted != len(pairs):
            raise InputError(
                f"{path} has {len(pairs):,} pairs of the split {split}, and its manifest says {counted:,}; "
                "run `dvc repro prepare` to make both again"
            )


def write(path: str | Path, manifest: Manifest) -> None:
    """Write the manifest as JSON."""
    write_json(path, asdict(manifest))


def read(path: str | Path) -> Manifest:
    """Read what `write` wrote. Raises InputError where the file does not hold a manifest."""
    return read_record(path, Manifest, REMEDY)
