"""Add a dataset of your own to params.yaml: a folder with images, and pairs.csv or pairs.jsonl.

python -m commands.new_dataset my_pairs data/raw/my_pairs                  with Spot-the-Diff's settings
python -m commands.new_dataset my_pairs data/raw/my_pairs --like tabletop  small, without a download

The command adds an entry to params.yaml, and writes a card, data/cards/NAME.yaml. The entry has the settings
of the dataset --like. Only `select: truth` is replaced, because it needs scenes. The folder's path is
absolute if git tracks no file in it, so that `dvc exp run --temp` finds the images. data/README.md,
"A dataset of your own", describes the columns of pairs.csv.
"""

from pathlib import Path

from commands import run
from pipeline.cli.arguments import new_parser, parsed, to_read, word
from pipeline.datasets import cards, new_entry
from pipeline.io.outputs import file_to_write


def main() -> None:
    parser = new_parser("python -m commands.new_dataset", __doc__)
    add = parser.add_argument
    add("name", type=word, help="letters, digits and _")
    add("folder", type=to_read, help="the folder with the table; images are in it or below")
    like = "the dataset whose settings it takes (default: spot_the_diff)"
    add("--like", type=word, default="spot_the_diff", help=like)
    add("--params", type=file_to_write, default=Path("params.yaml"), help="the file to change (params.yaml)")
    arguments = parsed(parser)
    name = arguments.name
    new = new_entry.add(arguments.params, name, arguments.folder, arguments.like)
    print(f"{name} {'is now' if new else 'is already'} in {arguments.params}. Next:")
    print(f"  make check-data DATASET={name}")
    if new:
        print(f"  git shows its entry in {arguments.params} and its card, {cards.path_of(name)}: commit both")
    print(f"  set `datasets: [{name}]` at the top of {arguments.params}, then run `dvc repro report`")


if __name__ == "__main__":
    run(main)
