"""prepare@dataset: read a dataset's published layout, check it, write its pairs and its images' index."""

import argparse
from pathlib import Path

from pipeline import datasets, images, params
from pipeline.datasets.schema import images_of, write_pairs
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True, help="its name under 'dataset' in params.yaml")
    parser.add_argument("--pairs", type=Path, required=True, help="the pairs to write, JSON lines")
    parser.add_argument("--images", type=Path, required=True, help="the index of images to write, JSON lines")
    arguments = parser.parse_args()
    settings = params.load().of(arguments.dataset).prepare
    root = Path(settings.root)
    pairs = datasets.read(settings.reader, root)
    names = images_of(pairs)
    images.write_index(arguments.images, images.index(root, names))
    write_pairs(arguments.pairs, pairs)
    print(f"{arguments.dataset}: {len(pairs)} pairs, {len(names)} images")


if __name__ == "__main__":
    run(main)
