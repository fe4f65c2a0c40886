"""Read CUB and NABirds, two datasets of birds that are used only for pre-training.

CUB-200-2011 (Wah et al., 2011) has photographs. The folder text_c10 has ten sentences for each of them,
from Reed et al. (2016). A CUB image becomes a Pair whose two images are the same.

NABirds (Van Horn et al., 2015) has photographs of 555 classes, without text. IDC-PCL draws pairs of
them, but its method is not published. In this file, each photograph is the first image of one pair. In
every second pair, both images have the same class.

In both datasets, the published test images become the validation split.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from pipeline.datasets.annotations import Annotation, ImageName
from pipeline.datasets.schema import ClassPair, Pair
from pipeline.io.errors import InputError, listed
from pipeline.io.inputs import read_lines, read_text
from pipeline.io.outputs import Contents
from pipeline.io.records import checked

FOLDER = Path("data/pretraining")
RECORDS, IMAGES, NEGATIVES = "records.jsonl", "images.jsonl", "negatives.jsonl"  # files of a dataset
CONTENTS = Contents("pretraining records")
SPLITS = {"1": "train", "0": "val"}
TEXT = "text_c10"
REMEDY = "data/README.md lists the files of CUB and of NABirds"


def records_of(folder: Path, dataset: str) -> Path:
    return folder / "records" / dataset


def stores_of(folder: Path, dataset: str) -> Path:
    return folder / "stores" / dataset


def remedy(dataset: str) -> str:
    """Return the end of an error message, which says how to make the missing files of a dataset."""
    return (
        f"add {dataset} to pretraining.datasets in params.yaml and run "
        f"`dvc repro prepare_pretraining@{dataset} extract_pretraining@{dataset}`"
    )


class _Image(Annotation):
    """An image of CUB or NABirds. The values of a field are in the published file <field>.txt."""

    images: ImageName  # below images/
    image_class_labels: Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]
    train_test_split: Literal["1", "0"]

    @property
    def split(self) -> str:
        return SPLITS[self.train_test_split]


def read_cub(root: Path) -> list[Pair]:
    """Return a pair per image, in the order of images.txt; the image is its before and its after image."""
    pairs, problems = [], []
    for key, image in _read_images(root).items():
        file = Path(root / TEXT / image.images).with_suffix(".txt")
        if file.is_file() and (captions := _captions(read_text(file, REMEDY))):
            name = f"images/{image.images}"
            pairs.append(Pair(key, key, image.split, name, name, captions))
        else:
            problems.append(f"{file.relative_to(root / TEXT)} is missing, or has no sentence")
    if problems:
        raise listed(problems, str(root / TEXT), REMEDY)
    return pairs


def _captions(text: str) -> tuple[str, ...]:
    # some published sentences have replacement characters, which come from a wrong encoding
    lines = (" ".join(line.replace("\ufffd", " ").split()) for line in text.split("\n"))
    return tuple(line for line in lines if line)


def read_nabirds(root: Path, seed: int) -> list[ClassPair]:
    """Return randomly drawn pairs of photographs: first the pairs of train, then those of val.

    Classes are numbered from 0. The random generators have the seeds [seed, 0] (train) and [seed, 1] (val).
    """
    images = _read_images(root)
    classes = {key: int(image.image_class_labels) for key, image in images.items()}
    class_numbers = {label: number for number, label in enumerate(sorted(set(classes.values())))}
    pairs = []
    for index, split in enumerate(SPLITS.values()):
        class_of = {key: class_numbers[classes[key]] for key, image in images.items() if image.split == split}
        if len(set(class_of.values())) < 2:
            raise InputError(f"{root}: the split {split} has only one class; pairs need two")
        for key, other_key in _drawn(class_of, np.random.default_rng([seed, index])):
            before, after = (f"images/{images[image_id].images}" for image_id in (key, other_key))
            pairs.append(
                ClassPair(f"{key}_{other_key}", split, before, after, class_of[key], class_of[other_key])
            )
    return pairs


def _drawn(classes: Mapping[str, int], rng: np.random.Generator) -> Iterator[tuple[str, str]]:
    """Yield each image with another, alternately of its class (unless it is alone) and of another class."""
    images = list(classes)
    images_of_class: dict[int, list[str]] = {}
    for image, label in classes.items():
        images_of_class.setdefault(label, []).append(image)
    for number, image in enumerate(images):
        same_class = [other for other in images_of_class[classes[image]] if other != image]
        if number % 2 == 0 and same_class:
            yield image, same_class[int(rng.integers(len(same_class)))]
            continue
        other = image
        while classes[other] == classes[image]:
            other = images[int(rng.integers(len(images)))]
        yield image, other


def _read_images(root: Path) -> dict[str, _Image]:
    """Read the file <field>.txt of each field of _Image: image id -> image, in the order of images.txt."""
    rows: dict[str, dict[str, str]] = {}
    for name in _Image.model_fields:
        path = root / f"{name}.txt"
        for number, line in enumerate(read_lines(path, REMEDY), 1):
            key, _, value = line.strip().partition(" ")
            if key and rows.setdefault(key, {}).setdefault(name, value.strip()) != value.strip():
                raise InputError(f"{path}, line {number}: {key} has two values; keep one of them")
    images = checked(dict[str, _Image], rows, str(root), REMEDY)
    for split in SPLITS.values():
        if not any(image.split == split for image in images.values()):
            raise InputError(f"{root / 'train_test_split.txt'} has no image of {split}; both need images")
    return images
