"""prepare@dataset: read a dataset's published layout, check it, write its pairs and its images' index."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pipeline.cli.arguments import parsed, to_read, word
from pipeline.config import params
from pipeline.datasets import cards, checking, counts, images, manifest, readers
from pipeline.datasets.caption_notes import notes
from pipeline.datasets.images import Indexed
from pipeline.datasets.manifest import Manifest
from pipeline.datasets.schema import Pair, images_of, write_pairs
from pipeline.io.errors import listed, printable
from pipeline.io.outputs import file_to_write
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=word, required=True, help="its name under 'dataset' in params.yaml")
    parser.add_argument("--card", type=to_read, required=True, help="its card, whose counts are compared")
    parser.add_argument("--pairs", type=file_to_write, required=True, help="the pairs to write, JSON lines")
    parser.add_argument(
        "--images", type=file_to_write, required=True, help="the index of images to write, JSON lines"
    )
    parser.add_argument("--manifest", type=file_to_write, required=True, help="how it was prepared, to write")
    prepare(parsed(parser))


def prepare(arguments: argparse.Namespace) -> None:
    everything = params.load()
    settings = everything.of(arguments.dataset).prepare
    root, reader = Path(settings.root), settings.reader
    protocol = readers.protocol_of(reader, settings.protocol)
    card = cards.load(arguments.card)
    pairs = readers.read(reader, root, protocol)
    names = images_of(pairs)
    counted = counts.count(pairs)
    # before the images, which take long
    print(f"{arguments.dataset}: {len(pairs)} pairs, {len(names)} images")
    for difference in counts.differences(counted, card.counts(protocol) or {}):
        print(f"note: {difference}")
    if readers.is_own(reader):
        captions = [caption for pair in pairs for caption in pair.captions]
        for note in notes(captions, everything.text.lower_case):
            print(printable(f"note: {note}"))

    images.write_index(arguments.images, _divided(images.index(root, names), pairs, reader))
    write_pairs(arguments.pairs, pairs)
    read = checking.hashes(root, readers.annotation_files(reader, root))
    hashed = manifest.hashes(arguments.pairs, arguments.images)
    manifest.write(arguments.manifest, Manifest(reader, protocol, read, counted, hashed))


def _divided(found: Iterable[Indexed], pairs: Sequence[Pair], reader: str) -> Iterator[Indexed]:
    """Yield the images. At the end, say which are in two splits by content.

    Raises InputError where the splits are a user's own; published ones are taken as they are.
    """
    content = {}
    for image in found:
        content[image.name] = image.sha256
        yield image
    if not (twice := checking.in_two_splits(pairs, content)):
        return
    if readers.is_own(reader):
        raise listed(twice, "pictures in two splits", "give all pairs of a picture one split")
    print(printable(f"note: {len(twice):,} images are in two splits by content: {twice[0]}"))


if __name__ == "__main__":
    run(main)
