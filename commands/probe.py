"""Test a backbone's features with a linear probe, which predicts object attributes from single feature cells.

The dataset must be rendered, such as tabletop. With --labelled FOLDER the probe is also tested on real images
that you labelled (docs/evaluation.md, "Truth"), and a second classifier separates rendered from real cells.
The accuracy of this classifier is 0.5 if the cells do not differ.
"""

import argparse
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from commands import run
from pipeline.cli.arguments import address_to_read, new_parser, parsed, to_read, whole
from pipeline.datasets.images import read_named
from pipeline.datasets.manifest import read_pairs
from pipeline.datasets.schema import images_of, of_split
from pipeline.features.store import FeatureStore
from pipeline.io.outputs import file_to_write, write_json
from pipeline.probe import grid_labels, labelled_cells, linear_probe
from pipeline.probe.labelled_cells import ImageGrids
from pipeline.probe.linear_probe import Cells, ProbeScores
from pipeline.reporting.tables import Table, show

Labelling = Callable[..., np.ndarray]  # function that returns the class of each cell


def main() -> None:
    parser = new_parser("python -m commands.probe", __doc__)
    add = parser.add_argument
    add("--features", type=address_to_read, required=True, help="the store: a folder, or an address")
    add("--pairs", type=to_read, required=True)
    add("--images", type=to_read, required=True, help="the index of the images")
    add("--scenes", type=to_read, required=True, help="the scenes.json that render wrote")
    add("--split", choices=("val", "test"), default="val", help="the split to test on")
    # 1,000,000 cells of 2,048 channels take 8 GB of memory
    add("--cells", type=whole(1, 1_000_000), default=20_000, help="greatest number of cells per split")
    add("--labelled", type=to_read, help="also test on this folder of labelled images")
    add("--lab", type=to_read, default=Path(), help="the repository that filled the store")
    add("--out", type=file_to_write, help="a JSON file for the figures")
    probe(parsed(parser))


def probe(arguments: argparse.Namespace) -> None:
    store = FeatureStore(arguments.features, expected={})
    images = ImageGrids(store, arguments.lab) if arguments.labelled else None
    train = read_cells(arguments, store, "train", grid_labels.label)
    held_out = read_cells(arguments, store, arguments.split, grid_labels.label)
    scores = linear_probe.probe(train, held_out)
    counts = {"train": len(train.classes), arguments.split: len(held_out.classes)}
    figures = asdict(scores) | {"cells": counts, "split": arguments.split}
    show_accuracy(scores, arguments.split, len(held_out.classes), len(train.classes))
    if images:
        figures["labelled"] = probe_labelled(arguments, store, images)
    if arguments.out:
        write_json(arguments.out, figures)


def probe_labelled(arguments: argparse.Namespace, store: FeatureStore, grids: ImageGrids) -> dict[str, Any]:
    """Train a linear probe of the cells' attributes on rendered cells, and test it on labelled images.

    Only cells with the centre of an object are used. `grids` computes the labelled images' features.
    A second linear classifier tells rendered from labelled cells; its accuracy is `told_apart`. Prints
    and returns the scores.
    """
    train = read_cells(arguments, store, "train", grid_labels.centres)
    held_out = read_cells(arguments, store, arguments.split, grid_labels.centres)
    real = labelled_cells.cells(grids, arguments.labelled)
    scores, apart = linear_probe.probe(train, real), linear_probe.separability(held_out, real)
    show_accuracy(scores, str(arguments.labelled), len(real.classes), len(train.classes))
    print(f"accuracy of a linear classifier of rendered and labelled cells: {apart:.3f} (chance: 0.5)")
    return asdict(scores) | {"cells": len(real.classes), "told_apart": apart}


def read_cells(arguments: argparse.Namespace, store: FeatureStore, split: str, labelling: Labelling) -> Cells:
    names = images_of(of_split(read_pairs(arguments.pairs), split))
    images = read_named(arguments.images, names)
    labels = labelling(grid_labels.read_scenes(arguments.scenes), images, store.shape[1:])
    return linear_probe.gather(store.read, names, labels, arguments.cells, f"reading cells of {split}")


def show_accuracy(scores: ProbeScores, split: str, tested: int, trained: int) -> None:
    """Print each attribute's accuracy, and that of the most frequent class in training."""
    title = f"{tested:,} cells of {split}, by a probe trained on {trained:,} cells of train"
    rows = [[name, f"{share:.3f}", f"{scores.majority[name]:.3f}"] for name, share in scores.accuracy.items()]
    show([Table(title, ["attribute", "accuracy", "majority"], rows)])


if __name__ == "__main__":
    run(main)
