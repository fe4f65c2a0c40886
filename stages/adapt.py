"""adapt@dataset-model-seed: the phase before captioning, of a model that has one: learn to retrieve.

Several processes share it as they share `train`.
"""

import argparse

from pipeline.recipes import recipe_file
from pipeline.training import phases
from stages import run, train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    train.add_arguments(parser)
    arguments = parser.parse_args()
    recipe = recipe_file.load(arguments.recipe)
    train.run_phase("adapt", arguments, recipe, phases.adaptation(recipe))


if __name__ == "__main__":
    run(main)
