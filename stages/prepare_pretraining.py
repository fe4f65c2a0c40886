"""prepare_pretraining@dataset: read a dataset that pre-training alone sees, and index its images."""

import argparse
from pathlib import Path

from pipeline import params
from pipeline.datasets import cub, images, nabirds
from pipeline.datasets.pretraining_schema import images_of, write_records
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True, choices=("cub", "nabirds"))
    parser.add_argument("--records", type=Path, required=True, help="the records to write, JSON lines")
    parser.add_argument("--images", type=Path, required=True, help="the index of images to write, JSON lines")
    arguments = parser.parse_args()
    settings = params.load().pretraining
    root = Path(settings.root[arguments.dataset])
    records = cub.read(root) if arguments.dataset == "cub" else nabirds.read(root, settings.seed)
    names = images_of(records)
    # before the images, which take long
    print(f"{arguments.dataset}: {len(records)} records, {len(names)} images")
    images.write_index(arguments.images, images.index(root, names))
    write_records(arguments.records, records)


if __name__ == "__main__":
    run(main)
