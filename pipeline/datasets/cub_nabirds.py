"""CUB and NABirds, which pre-training alone reads: published lists -> records, and where these lie.

CUB-200-2011 (Wah et al., 2011) is the folder of the images' authors, with the ten sentences an image of
Reed et al. (2016) put into it: text_c10/. A single image is a Pair of which both images are the same one.
NABirds (Van Horn et al., 2015) has photographs of 555 classes, without text. How IDC-PCL drew its pairs is
not published: here every photograph is the first of one pair, and every other pair is of one class.

Both list images in one form: an image's id, a space, and what is said of it. The published test images are
pre-training's validation: nothing is ever scored on them here. data/pretraining/records/<dataset>/ holds the
records, the index of their images and, of CUB, negatives; data/pretraining/stores/<dataset>/ the features.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from pipeline.datasets.annotations import image_fault, shown
from pipeline.datasets.schema import ClassPair, Pair
from pipeline.io.errors import InputError, listed
from pipeline.io.inputs import read_text
from pipeline.io.outputs import Contents

FOLDER = Path("data/pretraining")
RECORDS, IMAGES, NEGATIVES = "records.jsonl", "images.jsonl", "negatives.jsonl"  # of a dataset
CONTENTS = Contents("pretraining records")
LISTS = ("images.txt", "image_class_labels.txt", "train_test_split.txt")
SPLITS = {"1": "train", "0": "val"}
TEXT = "text_c10"
REMEDY = "data/README.md lists the files of CUB and of NABirds"


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


@dataclass(frozen=True)
class _Image:
    image_id: str
    name: str  # below images/
    label: int  # its class, as the dataset numbers it
    split: str


def read_cub(root: Path) -> list[Pair]:
    """All images with their sentences, in the order of images.txt, each as before and after of a pair.

    Raises InputError naming the lists' wrong lines, or the first images that have no sentences.
    """
    found, problems = [], []
    for image in _read_images(root):
        file = f"{PurePosixPath(image.name).with_suffix('')}.txt"
        if captions := _captions(root / TEXT / file):
            name = f"images/{image.name}"
            found.append(Pair(image.image_id, image.image_id, image.split, name, name, captions))
        else:
            problems.append(f"{file} is missing, no text in UTF-8, or has no sentence")
    if problems:
        raise listed(problems, str(root / TEXT), REMEDY)
    return found


def _captions(path: Path) -> tuple[str, ...]:
    """The sentences, one a line, white space collapsed; none where the file cannot be read."""
    try:
        text = read_text(path, REMEDY)
    except InputError:
        return ()
    # some published sentences hold what a wrong encoding left
    lines = (" ".join(line.replace("\ufffd", " ").split()) for line in text.split("\n"))
    return tuple(line for line in lines if line)


def read_nabirds(root: Path, seed: int) -> list[ClassPair]:
    """The pairs of train and then of val, drawn by [seed, 0] and [seed, 1]; classes are numbered from 0.

    Raises InputError naming the lists' wrong lines, or a split that has one class alone.
    """
    images = _read_images(root)
    numbers = {label: number for number, label in enumerate(sorted({image.label for image in images}))}
    return [
        ClassPair(
            f"{one.image_id}_{other.image_id}",
            split,
            f"images/{one.name}",
            f"images/{other.name}",
            numbers[one.label],
            numbers[other.label],
        )
        for place, split in enumerate(SPLITS.values())
        for one, other in _drawn(
            root, [image for image in images if image.split == split], np.random.default_rng([seed, place])
        )
    ]


def _drawn(root: Path, images: Sequence[_Image], rng: np.random.Generator) -> Iterator[tuple[_Image, _Image]]:
    """Each image with another one, in turn of its class and of a different one.

    An image that is alone in its class has one of a different class beside it.
    """
    of_class: dict[int, list[_Image]] = {}
    for image in images:
        of_class.setdefault(image.label, []).append(image)
    if len(of_class) < 2:
        raise InputError(f"{root}: the split {images[0].split} has one class alone; pairs need two")
    for number, image in enumerate(images):
        own = [other for other in of_class[image.label] if other is not image]
        if number % 2 == 0 and own:
            yield image, own[int(rng.integers(len(own)))]
            continue
        other = image
        while other.label == image.label:
            other = images[int(rng.integers(len(images)))]
        yield image, other


def _read_images(root: Path) -> list[_Image]:
    """All images of the three lists, in the order of images.txt.

    Raises InputError naming the file and the first lines that are wrong or do not fit together.
    """
    names, labels, splits = (_read_list(root / file) for file in LISTS)
    problems = []
    for file, table in zip(LISTS[1:], (labels, splits), strict=True):
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
        raise listed(problems, str(root), REMEDY)
    images = [_Image(key, name, int(labels[key]), SPLITS[splits[key]]) for key, name in names.items()]
    for split in SPLITS.values():
        if not any(image.split == split for image in images):
            raise InputError(f"{root / LISTS[2]} has no image of {split}; both splits need images")
    return images


def _read_list(path: Path) -> Mapping[str, str]:
    """Id -> the rest of its line."""
    found: dict[str, str] = {}
    for number, line in enumerate(read_text(path, REMEDY).splitlines(), 1):
        name, _, value = line.strip().partition(" ")
        if not name:
            continue
        if not value:
            raise InputError(f"{path}, line {number}: {shown(line)} is not an id and a value; {REMEDY}")
        if name in found:
            raise InputError(f"{path}, line {number}: {name} stands there before; keep one of them")
        found[name] = value.strip()
    if not found:
        raise InputError(f"{path} is empty; {REMEDY}")
    return found
