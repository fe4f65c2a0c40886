"""The lists of CUB-200-2011 and NABirds, of one form: an image's id, a space, and what is said of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.datasets.annotations import image_fault, read_plain, shown
from pipeline.errors import InputError, listed

FILES = ("images.txt", "image_class_labels.txt", "train_test_split.txt")
SPLITS = {"1": "train", "0": "val"}  # pre-training has no test; what is published as such only logs


@dataclass(frozen=True)
class LabelledImage:
    """An image, its class as the dataset numbers it, and its split."""

    image_id: str
    name: str  # below images/
    label: int
    split: str


def read(root: Path, remedy: str) -> list[LabelledImage]:
    """All images of the three lists, in the order of images.txt.

    Raises InputError naming the file and the first lines that are wrong or do not fit together.
    """
    names, labels, splits = (_read_list(root / file, remedy) for file in FILES)
    problems = []
    for file, table in zip(FILES[1:], (labels, splits), strict=True):
        problems += [f"{file} has no {name}" for name in names if name not in table]
        problems += [f"{file} has {name}, unknown to images.txt" for name in table if name not in names]
    problems += [f"images.txt: {name}: {fault}" for name, own in names.items() if (fault := image_fault(own))]
    problems += [
        f"image_class_labels.txt: {name}: {shown(own)} is no number of a class"
        for name, own in labels.items()
        if not (own.isascii() and own.isdigit() and len(own) < 10)
    ]
    problems += [
        f"train_test_split.txt: {name}: {shown(own)}, not 1 (train) or 0"
        for name, own in splits.items()
        if own not in SPLITS
    ]
    if problems:
        raise listed(problems, str(root), remedy)
    images = [LabelledImage(key, name, int(labels[key]), SPLITS[splits[key]]) for key, name in names.items()]
    _check_both(root, images)
    return images


def _read_list(path: Path, remedy: str) -> Mapping[str, str]:
    """Id -> the rest of its line."""
    found: dict[str, str] = {}
    for number, line in enumerate(read_plain(path, remedy).splitlines(), 1):
        name, _, value = line.strip().partition(" ")
        if not name:
            continue
        if not value:
            raise InputError(f"{path}, line {number}: {shown(line)} is not an id and a value; {remedy}")
        if name in found:
            raise InputError(f"{path}, line {number}: {name} stands there before; keep one of them")
        found[name] = value.strip()
    if not found:
        raise InputError(f"{path} is empty; {remedy}")
    return found


def _check_both(root: Path, images: list[LabelledImage]) -> None:
    for split in SPLITS.values():
        if not any(image.split == split for image in images):
            raise InputError(f"{root / FILES[2]} has no image of {split}; both splits need images")
