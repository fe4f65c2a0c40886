"""Enter a dataset of your own into params.yaml: a folder with pairs.csv or pairs.jsonl, and pictures.

python -m commands.new_dataset my_pairs data/raw/my_pairs                  with Spot-the-Diff's settings
python -m commands.new_dataset my_pairs data/raw/my_pairs --like tabletop  small, without a download

An entry is added, and a card, data/cards/NAME.yaml. The entry replaces what a table of pairs does not allow:
`select: truth`, which needs scenes. What a row may say: data/README.md, "A dataset of your own".
"""

import argparse
from pathlib import Path

from commands import run
from pipeline.cli.arguments import parsed, to_read, word
from pipeline.datasets import cards, new_entry
from pipeline.io.outputs import file_to_write


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m commands.new_dataset",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("name", type=word, help="letters, digits and _")
    parser.add_argument("folder", type=to_read, help="where the table lies; the pictures below it")
    parser.add_argument(
        "--like", type=word, default="spot_the_diff", help="the dataset whose settings it takes"
    )
    parser.add_argument("--params", type=file_to_write, default=Path("params.yaml"))
    arguments = parsed(parser)
    name = arguments.name
    new = new_entry.add(arguments.params, name, arguments.folder, arguments.like)
    print(f"{name} {'is entered' if new else 'is already'} in {arguments.params}. Next:")
    print(f"  make check-data DATASET={name}")
    if new:
        print(f"  git shows its entry in {arguments.params} and its card, {cards.path_of(name)}: commit both")
    print(f"  set `datasets: [{name}]` at the head of {arguments.params}, then `dvc repro report`")


if __name__ == "__main__":
    run(main)
