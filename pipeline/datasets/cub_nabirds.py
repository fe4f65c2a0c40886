"""CUB and NABirds, which pre-training alone reads: published lists -> records, and where these lie.

CUB-200-2011 (Wah et al., 2011) is the folder of the images' authors, with the ten sentences an image of
Reed et al. (2016) put into it: text_c10/. A single image is a Pair of which both images are the same one.
NABirds (Van Horn et al., 2015) has photographs of 555 classes, without text. How IDC-PCL drew its pairs is
not published: here every photograph is the first of one pair, and every other pair is of one class.

Both list images in one form: an image's id, a space, and what is said of it. The published test images are
pre-training's validation: nothing is ever scored on them here. data/pretraining/records/<dataset>/ holds the
records, the index of their images and, of CUB, negatives; data/pretraining/stores/<dataset>/ the features.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from pipeline.datasets.annotations import ImageName, Published, shown
from pipeline.datasets.schema import ClassPair, Pair
from pipeline.io.errors import InputError, listed
from pipeline.io.inputs import read_text
from pipeline.io.outputs import Contents
from pipeline.io.records import checked

FOLDER = Path("data/pretraining")
RECORDS, IMAGES, NEGATIVES = "records.jsonl", "images.jsonl", "negatives.jsonl"  # of a dataset
CONTENTS = Contents("pretraining records")
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


class _Image(Published):
    """What the three lists say of an image, by the lists' names."""

    images: ImageName  # below images/
    image_class_labels: Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]  # its class, as the dataset numbers it
    train_test_split: Literal["1", "0"]

    @property
    def split(self) -> str:
        return SPLITS[self.train_test_split]


def read_cub(root: Path) -> list[Pair]:
    """All images with their sentences, in the order of images.txt, each as before and after of a pair.

    Raises InputError naming the lists' wrong lines, or the first images that have no sentences.
    """
    found, problems = [], []
    for key, image in _read_images(root).items():
        file = f"{PurePosixPath(image.images).with_suffix('')}.txt"
        if captions := _captions(root / TEXT / file):
            name = f"images/{image.images}"
            found.append(Pair(key, key, image.split, name, name, captions))
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
    classes = {key: int(image.image_class_labels) for key, image in images.items()}
    numbers = {label: number for number, label in enumerate(sorted(set(classes.values())))}
    pairs = []
    for place, split in enumerate(SPLITS.values()):
        own = {key: numbers[classes[key]] for key, image in images.items() if image.split == split}
        if len(set(own.values())) < 2:
            raise InputError(f"{root}: the split {split} has one class alone; pairs need two")
        for one, other in _drawn(own, np.random.default_rng([seed, place])):
            before, after = (f"images/{images[key].images}" for key in (one, other))
            pairs.append(ClassPair(f"{one}_{other}", split, before, after, own[one], own[other]))
    return pairs


def _drawn(classes: Mapping[str, int], rng: np.random.Generator) -> Iterator[tuple[str, str]]:
    """Each image with another one, in turn of its class and of a different one; `classes`: by image.

    An image that is alone in its class has one of a different class beside it.
    """
    images = list(classes)
    of_class: dict[int, list[str]] = {}
    for image, label in classes.items():
        of_class.setdefault(label, []).append(image)
    for number, image in enumerate(images):
        own = [other for other in of_class[classes[image]] if other != image]
        if number % 2 == 0 and own:
            yield image, own[int(rng.integers(len(own)))]
            continue
        other = image
        while classes[other] == classes[image]:
            other = images[int(rng.integers(len(images)))]
        yield image, other


def _read_images(root: Path) -> dict[str, _Image]:
    """Id -> what the three lists say of an image, in the order of images.txt.

    Raises InputError naming the first image of which a list says nothing, or something wrong.
    """
    lists = {name: _read_list(root / f"{name}.txt") for name in _Image.model_fields}
    ids = dict.fromkeys(key for own in lists.values() for key in own)
    rows = {key: {name: own[key] for name, own in lists.items() if key in own} for key in ids}
    images = checked(dict[str, _Image], rows, str(root), REMEDY)
    for split in SPLITS.values():
        if not any(image.split == split for image in images.values()):
            raise InputError(f"{root / 'train_test_split.txt'} has no image of {split}; both need images")
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
