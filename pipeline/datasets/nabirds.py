"""NABirds (Van Horn et al., 2015): pairs of its photographs of 555 classes, without text.

How IDC-PCL drew its pairs is not published: here every photograph is the first of one pair, and every other
pair is of one class.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from pipeline.datasets import labelled_images
from pipeline.datasets.labelled_images import SPLITS, LabelledImage
from pipeline.datasets.pretraining_schema import ClassPair
from pipeline.errors import InputError

REMEDY = "data/README.md lists the files of NABirds"


def read(root: Path, seed: int) -> list[ClassPair]:
    """The pairs of train and then of val, drawn by [seed, 0] and [seed, 1]; classes are numbered from 0.

    Raises InputError naming the lists' wrong lines, or a split that has one class alone.
    """
    images = labelled_images.read(root, REMEDY)
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


def _drawn(
    root: Path, images: Sequence[LabelledImage], rng: np.random.Generator
) -> Iterator[tuple[LabelledImage, LabelledImage]]:
    """Each image with another one, in turn of its class and of a different one.

    An image that is alone in its class has one of a different class beside it.
    """
    of_class: dict[int, list[LabelledImage]] = {}
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
