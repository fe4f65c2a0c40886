"""prepare@dataset: read a published dataset, check it, and write its pairs and the index of its images.

For a dataset that only pre-training uses (CUB or NABirds), the stage writes a folder of records instead. For
CUB, the folder also has six negatives (wrong captions) of each image.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.cli.arguments import new_parser, parsed, to_read, word
from pipeline.config import params
from pipeline.datasets import cards, checking, cub_nabirds, images, manifest, pair_checks, readers
from pipeline.datasets.manifest import Manifest
from pipeline.datasets.negatives import write_negatives
from pipeline.datasets.schema import ClassPair, Pair, images_of, read_pairs, write_pairs
from pipeline.io.errors import InputError, printable
from pipeline.io.outputs import file_to_write, replacing
from pipeline.io.progress import track
from pipeline.negatives.generation import generate
from pipeline.text import caption_text
from stages import run


def main() -> None:
    parser = new_parser("python -m stages.prepare", __doc__)
    add = parser.add_argument
    add("--dataset", type=word, required=True, help="its name under 'dataset' in params.yaml")
    add("--card", type=to_read, help="the dataset's card, with the published counts")
    add("--pairs", type=file_to_write, help="the file of pairs to write, JSON lines")
    add("--images", type=file_to_write, help="the index of images to write, JSON lines")
    add("--manifest", type=file_to_write, help="the manifest of the preparation to write")
    add("--records", type=cub_nabirds.CONTENTS.to_write, help="for cub or nabirds: the only output, a folder")
    arguments = parsed(parser)
    needed = ("card", "pairs", "images", "manifest")
    if arguments.records:
        prepare_pretraining(arguments)
    elif missing := [name for name in needed if getattr(arguments, name) is None]:
        parser.error(f"the following arguments are required: --{missing[0]}")
    else:
        prepare(arguments)


def prepare(arguments: argparse.Namespace) -> None:
    settings = params.load().of(arguments.dataset).prepare
    root, reader = Path(settings.root), settings.reader
    protocol = readers.protocol_of(reader, settings.protocol)
    card = cards.load(arguments.card)
    pairs = readers.read(reader, root, protocol)
    names = images_of(pairs)
    counted = cards.count(pairs)
    # printed before the images are read, which takes long
    print(f"{arguments.dataset}: {len(pairs)} pairs, {len(names)} images")
    for difference in cards.differences(counted, card.counts(protocol) or {}):
        print(f"note: {difference}")
    for note in pair_checks.notes(root, pairs):
        print(printable(f"note: {note}"))
    for warning in caption_text.warnings((pair.pair_id, text) for pair in pairs for text in pair.captions):
        print(f"warning: {printable(warning)}", file=sys.stderr)
    images.write_index(arguments.images, images.index(root, names))
    write_pairs(arguments.pairs, pairs)
    annotation_hashes = checking.hashes(root, readers.annotation_files(reader, root))
    output_hashes = manifest.hashes(arguments.pairs, arguments.images)
    left_out = readers.left_out(reader, root, protocol)
    prepared = Manifest(reader, protocol, annotation_hashes, counted, output_hashes, left_out)
    manifest.write(arguments.manifest, prepared)


def prepare_pretraining(arguments: argparse.Namespace) -> None:
    settings, name = params.load().pretraining, arguments.dataset
    if name not in ("cub", "nabirds"):
        raise InputError(f"--records is for cub or nabirds, not for {name}; name one of these datasets")
    root = Path(settings.root[name])
    records: Sequence[Pair] | Sequence[ClassPair] = (
        cub_nabirds.read_cub(root) if name == "cub" else cub_nabirds.read_nabirds(root, settings.seed)
    )
    names = images_of(records)
    # printed before the images are read, which takes long
    print(f"{name}: {len(records)} records, {len(names)} images")
    with replacing(arguments.records, cub_nabirds.CONTENTS) as folder:
        folder.mkdir()
        images.write_index(folder / cub_nabirds.IMAGES, images.index(root, names))
        write_pairs(folder / cub_nabirds.RECORDS, records)
        if name == "cub":
            negatives = generate("birds", read_pairs(folder / cub_nabirds.RECORDS), settings.seed)
            negatives = track(negatives, "negatives", "images", len(records))
            write_negatives(folder / cub_nabirds.NEGATIVES, negatives)


if __name__ == "__main__":
    run(main)
