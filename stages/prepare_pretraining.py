"""prepare_pretraining@dataset: read a dataset that pre-training alone sees, and index its images.

Of CUB, whose captions are known to be of birds, six negatives of each image are made, too.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from pipeline.cli.arguments import parsed
from pipeline.config import params
from pipeline.datasets import images
from pipeline.datasets.cub_nabirds import CONTENTS, IMAGES, NEGATIVES, RECORDS, read_cub, read_nabirds
from pipeline.datasets.negatives import write_negatives
from pipeline.datasets.schema import ClassPair, Pair, images_of, read_pairs, write_pairs
from pipeline.io.outputs import replacing
from pipeline.io.progress import track
from pipeline.negatives.generation import generate
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", required=True, choices=("cub", "nabirds"))
    parser.add_argument("--out", type=CONTENTS.to_write, required=True, help="the folder to write")
    arguments = parsed(parser)
    settings = params.load().pretraining
    root = Path(settings.root[arguments.dataset])
    cub = arguments.dataset == "cub"
    records: Sequence[Pair] | Sequence[ClassPair] = (
        read_cub(root) if cub else read_nabirds(root, settings.seed)
    )
    names = images_of(records)
    # before the images, which take long
    print(f"{arguments.dataset}: {len(records)} records, {len(names)} images")
    with replacing(arguments.out, CONTENTS) as folder:
        folder.mkdir()
        images.write_index(folder / IMAGES, images.index(root, names))
        write_pairs(folder / RECORDS, records)
        if cub:
            made = generate("birds", read_pairs(folder / RECORDS), settings.seed)
            write_negatives(folder / NEGATIVES, track(made, "negatives", "images", len(records)))


if __name__ == "__main__":
    run(main)
