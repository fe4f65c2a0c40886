"""Publish a prepared dataset in formats that other tools can load, if the dataset's licence allows copies.

python -m commands.publish tabletop --out published/tabletop
python -m commands.publish my_pairs --out published/my_pairs --no-shards

The folder has images with metadata.parquet (load_dataset), conversations about two images (JSON Lines),
WebDataset shards, Croissant metadata, and the dataset's card. The licence is in data/cards/DATASET.yaml.
"""

from pathlib import Path

from commands import run
from pipeline.cli.arguments import new_parser, parsed, word
from pipeline.publishing import dataset, folder, rows


def main() -> None:
    parser = new_parser("python -m commands.publish", __doc__)
    add = parser.add_argument
    add("dataset", type=word, help="its name under 'dataset' in params.yaml")
    add("--out", type=folder.CONTENTS.to_write, required=True, help="the folder to write")
    add("--no-shards", action="store_true", help="no WebDataset shards: half the size")
    arguments = parsed(parser)
    rows.check_installed()
    published = dataset.load(arguments.dataset)
    out: Path = arguments.out
    folder.write(published, out, not arguments.no_shards)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    print(f"{out}: {len(published.pairs):,} pairs, {size / 1e6:.1f} MB, licence {published.licence.name}")


if __name__ == "__main__":
    run(main)
