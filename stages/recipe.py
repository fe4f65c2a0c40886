"""recipe@dataset-model: resolve the parameters into all that decides how this model is trained here."""

import argparse
from pathlib import Path

from pipeline import params
from pipeline.recipes import config, recipe_file
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    recipe_file.save(arguments.out, config.resolve(params.load(), arguments.dataset, arguments.model))


if __name__ == "__main__":
    run(main)
