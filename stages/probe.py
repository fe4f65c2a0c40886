"""How much do features know of the objects? A linear probe of single cells, on a dataset like tabletop."""

import argparse
from dataclasses import asdict

from pipeline.backbone import linear_probe
from pipeline.backbone.linear_probe import Cells, Scores
from pipeline.datasets.images import read_named
from pipeline.datasets.schema import images_of, of_split, read_pairs
from pipeline.features.store import FeatureStore
from pipeline.outputs import file_to_write, write_json
from pipeline.tabletop import grid_labels
from stages import run
from stages.arguments import address_to_read, cells, parsed, to_read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--features",
        type=address_to_read,
        required=True,
        help="the store: a folder, or an address (http, s3, gs)",
    )
    parser.add_argument("--pairs", type=to_read, required=True)
    parser.add_argument("--images", type=to_read, required=True, help="the index of the images")
    parser.add_argument("--scenes", type=to_read, required=True, help="the scenes.json that render wrote")
    parser.add_argument("--split", choices=("val", "test"), default="val", help="whose cells are told")
    parser.add_argument("--cells", type=cells, default=20_000, help="of each split at most")
    parser.add_argument("--out", type=file_to_write, help="a JSON file for the figures")
    probe(parsed(parser))


def probe(arguments: argparse.Namespace) -> None:
    store = FeatureStore(arguments.features, expected={})
    train, held_out = (read(arguments, store, split) for split in ("train", arguments.split))
    scores = linear_probe.probe(train, held_out)
    print(table(scores, arguments.split, len(held_out.classes), len(train.classes)))
    if arguments.out:
        counts = {"train": len(train.classes), arguments.split: len(held_out.classes)}
        write_json(arguments.out, asdict(scores) | {"cells": counts, "split": arguments.split})


def read(arguments: argparse.Namespace, store: FeatureStore, split: str) -> Cells:
    names = images_of(of_split(read_pairs(arguments.pairs), split))
    images = read_named(arguments.images, names)
    labels = grid_labels.label(grid_labels.read_scenes(arguments.scenes), images, store.shape[1:])
    return linear_probe.gather(store, names, labels, arguments.cells, f"reading cells of {split}")


def table(scores: Scores, split: str, told: int, known: int) -> str:
    """A line an attribute: the share told correctly, and that of the class most frequent in training."""
    rows = [
        f"{name:<10}{right:>9.3f}{scores.majority[name]:>10.3f}" for name, right in scores.accuracy.items()
    ]
    head = f"{told:,} cells of {split}, by a probe that {known:,} cells of train fitted"
    return "\n".join([head, "attribute  accuracy  majority", *rows])


if __name__ == "__main__":
    run(main)
