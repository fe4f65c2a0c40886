"""Arguments that name pairs: a file of prepared pairs, or the annotation files of a published dataset."""

import argparse
from pathlib import Path

from pipeline.cli.arguments import to_read, word
from pipeline.datasets import readers
from pipeline.datasets.manifest import read_pairs
from pipeline.datasets.schema import SPLITS, Pair
from pipeline.io.errors import InputError

ALL = "all"  # value of --split


def add(parser: argparse.ArgumentParser, group: argparse._MutuallyExclusiveGroup) -> None:
    """Add the arguments to a parser. `group` is a required group of it, to which the sources are added."""
    group.add_argument("--pairs", type=to_read, help="prepared pairs")
    names = f"annotation files of a published dataset, without images; NAME: {', '.join(readers.READERS)}"
    group.add_argument("--layout", type=word, nargs=2, metavar=("NAME", "FOLDER"), help=names)
    protocol = "how the layout's entries become pairs (prepare.protocol, such as per_entry)"
    parser.add_argument("--protocol", type=word, help=protocol)
    split = f"split of the pairs (default: {ALL})"
    parser.add_argument("--split", choices=(*SPLITS, ALL), default=ALL, help=split)
    parser.add_argument("--name", type=word, help="name of the dataset in outputs (default: of the pairs)")


def read(arguments: argparse.Namespace) -> tuple[str, list[Pair]]:
    """Return the name of the dataset, and its pairs with captions. Raises InputError if there are none."""
    if arguments.layout:
        name, folder = arguments.layout
        pairs = readers.read(name, Path(folder), arguments.protocol)
    elif arguments.protocol:
        raise InputError("--protocol needs --layout; prepared pairs have their protocol")
    else:
        name, pairs = arguments.pairs.stem, read_pairs(arguments.pairs)
    chosen = [pair for pair in pairs if arguments.split in (ALL, pair.split) and pair.captions]
    if not chosen:
        raise InputError(f"{name} has no pair with captions in the split {arguments.split}; choose another")
    return arguments.name or name, chosen
