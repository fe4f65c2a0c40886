"""What pre-training reads beside a dataset's pairs: CUB's images with captions, NABirds' pairs of classes.

data/pretraining/records/<dataset>/ holds the records, the index of their images and, of CUB, negatives;
data/pretraining/stores/<dataset>/ the features. A single image is a Pair of which both images are the same
one; a pair of classes has no caption, and is none.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from pipeline.datasets.schema import Pair
from pipeline.errors import InputError
from pipeline.inputs import read_lines
from pipeline.outputs import Contents, write_json_lines

FOLDER = Path("data/pretraining")
RECORDS, IMAGES, NEGATIVES = "records.jsonl", "images.jsonl", "negatives.jsonl"  # of a dataset
CONTENTS = Contents(RECORDS, (IMAGES, NEGATIVES))


@dataclass(frozen=True)
class ClassPair:
    """Two images and the class of what each shows, without a caption."""

    pair_id: str
    split: str  # train or val
    before: str  # file name relative to the dataset's root
    after: str
    before_class: int  # from 0 to the number of classes - 1
    after_class: int


Record = Pair | ClassPair


def records_of(folder: Path, dataset: str) -> Path:
    """The folder of a dataset's records, below that of what pre-training reads."""
    return folder / "records" / dataset


def stores_of(folder: Path, dataset: str) -> Path:
    """The folder of its stores."""
    return folder / "stores" / dataset


def remedy(dataset: str) -> str:
    """What makes both."""
    return (
        f"add {dataset} to pretraining.datasets in params.yaml and run "
        f"`dvc repro prepare_pretraining@{dataset} extract_pretraining@{dataset}`"
    )


def write_records(path: str | Path, records: Iterable[Record]) -> None:
    """Write records as JSON lines, fields in the order of their schema."""
    write_json_lines(path, (asdict(record) for record in records))


def read_class_pairs(path: str | Path, how: str) -> list[ClassPair]:
    """Read what was written. Raises InputError naming the line that is no pair of classes, and `how`."""
    known = [field.name for field in fields(ClassPair)]
    found = []
    for number, line in enumerate(read_lines(path, how), 1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict) or list(record) != known:
            raise InputError(f"{path}, line {number}: its fields must be {', '.join(known)}; {how}")
        found.append(ClassPair(**record))
    return found


def images_of(records: Sequence[Record]) -> list[str]:
    """Every image that the records name, once, in order of first mention."""
    return list(dict.fromkeys(name for record in records for name in (record.before, record.after)))
