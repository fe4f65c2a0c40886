"""Check that a dataset's folder is complete, before any stage runs. Only the headers of images are read.

python -m commands.check_data --dataset spot_the_diff    exit code 0: complete; 2: something is missing
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from commands import run
from pipeline.cli.arguments import new_parser, parsed, word
from pipeline.config import params, resolving
from pipeline.datasets import cards, checking, images, manifest, pair_checks, readers
from pipeline.datasets.schema import Pair, images_of, read_pairs
from pipeline.io.errors import listed, printable
from pipeline.io.progress import track
from pipeline.text import caption_text

SHOWN = 20


def main() -> None:
    parser = new_parser("python -m commands.check_data", __doc__)
    parser.add_argument("--dataset", type=word, required=True, help="its name under 'dataset' in params.yaml")
    name = parsed(parser).dataset
    settings_tree = params.load()
    settings = settings_tree.of(name).prepare
    root = Path(settings.root)
    pairs = readers.read(settings.reader, root, settings.protocol)
    protocol = readers.protocol_of(settings.reader, settings.protocol)
    annotations = readers.annotation_files(settings.reader, root)
    files = ", ".join(map(str, annotations))
    print(printable(f"{name}: {files}{f', protocol {protocol}' if protocol else ''}"))
    _compare_counts(cards.count(pairs), cards.path_of(name), protocol)
    names = images_of(pairs)
    for warning in caption_text.warnings((pair.pair_id, text) for pair in pairs for text in pair.captions):
        print(f"warning: {printable(warning)}", file=sys.stderr)
    problems = checking.missing(root, names)
    if problems:
        raise listed(problems, str(root), f"put these images in place ({cards.path_of(name)})")
    print(f"all {len(names):,} images are there")
    for note in pair_checks.notes(root, pairs):
        print(printable(f"note: {note}"))
    if settings.reader == readers.OWN:
        for model in settings_tree.models:
            resolving.resolve(settings_tree, name, model)  # raises for settings that do not fit the pairs
    _print_changes(name, root, annotations, pairs)


def _compare_counts(counted: cards.Counts, card: Path, protocol: str | None) -> None:
    print(", ".join(f"{counted[unit]:,} {unit}" for unit in ("pairs", "images", "captions")))
    # an unpublished dataset, such as the embedded one, may have no card
    expected = cards.load(card).counts(protocol) if card.exists() else None
    if expected is None:
        print("there are no published counts to compare")
        return
    if counted["shared_images"]:
        print(f"{counted['shared_images']:,} images are in more than one split")
    print("\n".join(cards.differences(counted, expected)) or "the counts equal the published ones")


def _print_changes(name: str, root: Path, annotations: Sequence[Path], pairs: Sequence[Pair]) -> None:
    path = Path(f"data/images/{name}.jsonl")
    if not path.exists():
        print(f"not prepared yet: name {name} in `datasets` of params.yaml, then run `dvc repro`")
        return
    index = images.read_index(path)
    # one image at a time: the 12 GB of CLEVR-Change may not fit into memory
    changes = list(checking.changed(root, track(index, "comparing", "images", len(index))))
    prepared = {image.name: None for image in index}
    changes += checking.differences("images", prepared, dict.fromkeys(images_of(pairs)))
    record = Path(f"data/pairs/{name}.manifest.json")
    if record.exists():
        files = checking.hashes(root, annotations)
        changes += checking.differences("annotation files", manifest.read(record).files, files)
        before = {pair.pair_id: pair for pair in read_pairs(f"data/pairs/{name}.jsonl")}
        changes += checking.differences("pairs", before, {pair.pair_id: pair for pair in pairs})
    if not changes:
        print("nothing has changed since the dataset was prepared")
        return
    ending = f"\n  and {len(changes) - SHOWN:,} more" if len(changes) > SHOWN else ""
    print(printable("since the dataset was prepared:\n  " + "\n  ".join(changes[:SHOWN]) + ending))
    print(f"prepare it again: dvc repro --force --single-item prepare@{name}")


if __name__ == "__main__":
    run(main)
