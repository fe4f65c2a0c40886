"""prepare_pretraining@dataset: read a dataset that pre-training alone sees, and index its images.

Of CUB, whose captions are known to be of birds, six negatives of each image are made, too.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from pipeline import params
from pipeline.datasets import cub, images, nabirds
from pipeline.datasets.negatives import write_negatives
from pipeline.datasets.pretraining_schema import (
    CONTENTS,
    IMAGES,
    NEGATIVES,
    RECORDS,
    Record,
    images_of,
    write_records,
)
from pipeline.negatives.generation import generate
from pipeline.outputs import replacing
from pipeline.progress import track
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", required=True, choices=("cub", "nabirds"))
    parser.add_argument("--out", type=CONTENTS.to_write, required=True, help="the folder to write")
    arguments = parser.parse_args()
    settings = params.load().pretraining
    root = Path(settings.root[arguments.dataset])
    with replacing(arguments.out, CONTENTS) as folder:
        folder.mkdir()
        if arguments.dataset == "cub":
            pairs = cub.read(root)
            index(root, folder, "cub", pairs)
            made = track(generate("birds", pairs, settings.seed), "negatives", "images", len(pairs))
            write_negatives(folder / NEGATIVES, made)
        else:
            index(root, folder, "nabirds", nabirds.read(root, settings.seed))


def index(root: Path, folder: Path, dataset: str, records: Sequence[Record]) -> None:
    """Write the records, and what their images are now."""
    names = images_of(records)
    # before the images, which take long
    print(f"{dataset}: {len(records)} records, {len(names)} images")
    images.write_index(folder / IMAGES, images.index(root, names))
    write_records(folder / RECORDS, records)


if __name__ == "__main__":
    run(main)
