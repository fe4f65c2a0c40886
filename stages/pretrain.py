"""pretrain@dataset-model-seed: the phase before captioning, of a model that learns several tasks first."""

import argparse
from pathlib import Path

from pipeline.datasets.negatives import REMEDY, read_negatives
from pipeline.errors import InputError
from pipeline.outputs import read_text
from pipeline.provenance import sha256
from pipeline.recipes import recipe_file
from pipeline.training import phases
from pipeline.training.task_sampling import FDA
from stages import run, train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    train.add_arguments(parser)
    parser.add_argument("--negatives", type=Path, help="those of the dataset's pairs, for the task fda")
    arguments = parser.parse_args()
    recipe = recipe_file.load(arguments.recipe)
    phases.check(recipe, "pretrain")
    negatives: dict[str, list[str]] = {}
    keys: tuple[str, ...] = ()
    if FDA in phases.tasks_of(recipe):
        if arguments.negatives is None:
            raise InputError(f"the task {FDA} needs negatives; name their file by --negatives ({REMEDY})")
        negatives = read_negatives(arguments.negatives)
        keys = (sha256(read_text(arguments.negatives, REMEDY).encode()),)
    train.run_phase("stages.pretrain", arguments, recipe, phases.pretraining(recipe, negatives, keys))


if __name__ == "__main__":
    run(main)
