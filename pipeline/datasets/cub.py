"""CUB-200-2011 (Wah et al., 2011) with the ten sentences an image of Reed et al., 2016: text_c10/.

The folder of the images' authors, with text_c10 put into it. The published test images are pre-training's
validation: nothing is ever scored on them here.
"""

from pathlib import Path, PurePosixPath

from pipeline.datasets import labelled_images
from pipeline.datasets.annotations import read_plain
from pipeline.datasets.labelled_images import LabelledImage
from pipeline.datasets.schema import Pair
from pipeline.errors import InputError, listed

TEXT = "text_c10"
REMEDY = "data/README.md lists the files of CUB"
SHOWN = 20


def read(root: Path) -> list[Pair]:
    """All images with their sentences, in the order of images.txt, each as before and after of a pair.

    Raises InputError naming the lists' wrong lines, or the first images that have no sentences.
    """
    found, problems = [], []
    for image in labelled_images.read(root, REMEDY):
        captions = _captions(root, image)
        if isinstance(captions, str):
            problems.append(captions)
        else:
            name = f"images/{image.name}"
            found.append(Pair(image.image_id, image.image_id, image.split, name, name, captions))
    if problems:
        raise listed(problems, str(root / TEXT), REMEDY, SHOWN)
    return found


def _captions(root: Path, image: LabelledImage) -> tuple[str, ...] | str:
    """The sentences, one a line, white space collapsed; or what is wrong."""
    file = f"{PurePosixPath(image.name).with_suffix('')}.txt"
    try:
        text = read_plain(root / TEXT / file, REMEDY)
    except InputError:
        return f"{file} is missing, or no text in UTF-8"
    # some published sentences hold what a wrong encoding left
    lines = [" ".join(line.replace("\ufffd", " ").split()) for line in text.split("\n")]
    captions = tuple(line for line in lines if line)
    return captions or f"{file} has no sentence"
