"""train@dataset-model-seed: train a recipe with a seed; keep the best snapshot and the learning curves.

If the recipe has "train.processes: n", this program starts n processes, which share every batch. With
"torchrun --nproc-per-node n -m stages.train ...", torchrun's n processes are used instead.
"""

import argparse
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from models.common.trainable import Trainable
from pipeline.cli import phase_run
from pipeline.cli.arguments import new_parser, parsed, to_read
from pipeline.cli.phase_run import Measure, run_phase
from pipeline.compute import devices, process_group
from pipeline.config import recipe_file
from pipeline.config.recipe_file import Recipe
from pipeline.datasets import manifest
from pipeline.features.store import FeatureStore
from pipeline.io import provenance
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.io.outputs import replacing
from pipeline.scoring import tokenizer
from pipeline.text import vocabularies
from pipeline.training import phases
from pipeline.training.phases import OtherInputs, Phase
from pipeline.weights import imported_weights, trained_model
from pipeline.weights.imported_weights import PRETRAINED
from pipeline.weights.model_description import Trained
from stages import run

Load = Callable[[Path], tuple[Trainable, Trained]]
INPUTS, REMEDY = "inputs.json", "run `dvc repro recipe` to make it"


def main() -> None:
    parser = new_parser("python -m stages.train", __doc__)
    add = parser.add_argument
    phase_run.add_arguments(parser)
    # not --start: torchrun reads that as its own --start-method
    add("--start-from", type=to_read, help="the folder of the run's inputs, with pre-trained weights")
    add("--trained", type=to_read, help="weights for the reward phase to start from (default: train them)")
    tokens = "tokeniser of validation: ptb (default), as for scores, or plain, which needs no Java"
    add("--tokens", choices=tokenizer.TOKENIZERS, default="ptb", help=tokens)
    arguments = parsed(parser)
    recipe = recipe_file.load(arguments.recipe)
    if folder := imported_weights.find(arguments.imported, "train"):
        use_imported("train", arguments, folder, trained_model.load)
        return
    inputs_folder = arguments.start_from
    start = inputs_folder / PRETRAINED if recipe.adapt and inputs_folder else None
    phase = phases.captioning(recipe, start, arguments.tokens)
    checks = partial(check, arguments, recipe, start)
    if "reinforce" not in recipe.train:
        run_phase("train", arguments, recipe, phase, start, checks=checks)
        return
    if arguments.trained is None:
        trained, folder = run_earlier("train", arguments, recipe, phase, phase_run.TRAINED, start, checks)
        curves = {phase_run.TRAINED: folder}
    else:
        trained, curves = arguments.trained, {}
    after = replace(phases.reinforcing(recipe, trained, arguments.tokens), others=OtherInputs(curves=curves))
    checks = partial(check_trained, arguments, recipe, trained)
    run_phase("train", arguments, recipe, after, trained, checks=checks)


def run_earlier(
    stage: str,
    arguments: argparse.Namespace,
    recipe: Recipe,
    phase: Phase,
    name: str,
    before: Path | None = None,
    checks: Callable[[], None] | None = None,
    **changes: object,
) -> tuple[Path, Path]:
    """Run an earlier phase of a stage in scratch folders, unless the phase is finished.

    Returns the folders of the phase's weights and learning curves.

    name: name of the phase
    before: folder of the weights that the phase starts from
    checks: function that checks the inputs, called in every process
    changes: values that replace those in `arguments` for this phase
    """
    changed = argparse.Namespace(**vars(arguments) | changes)
    store = phase_run.feature_store(changed, recipe)
    inputs = phase_run.input_contents(changed, before)
    keys = (*inputs, store.record, *phase.keys, str(changed.seed), devices.identity())
    changed.weights, changed.curves = (
        provenance.scratch(stage, arguments.weights, name, kind, *keys) for kind in ("weights", "curves")
    )
    if not changed.curves.exists():  # the curves are written last
        changed.live = changed.live and changed.live.with_name(f"{changed.live.name}-{name}")
        changed.provenance = changed.provenance.with_stem(f"{changed.provenance.stem}-{name}")
        run_phase(stage, changed, recipe, phase, before, out=arguments.weights, checks=checks)
    return changed.weights, changed.curves


def check_trained(arguments: argparse.Namespace, recipe: Recipe, folder: Path) -> None:
    """Raise InputError if the weights in `folder`, from which the reward phase starts, do not fit the run.

    They must have the seed, and all settings of `recipe` except `reinforce`. They must also fit the
    vocabulary and the feature store.
    """
    check(arguments, recipe)
    _, trained = trained_model.load(folder)
    settings = {key: value for key, value in recipe.train.items() if key != "reinforce"}
    others = {key: value for key, value in trained.recipe.train.items() if key != "reinforce"}
    same = recipe_file.same(replace(recipe, train=settings), replace(trained.recipe, train=others))
    if not same or trained.seed != arguments.seed:
        fault = f"has weights of other settings than {arguments.recipe}; only `reinforce` may differ"
        raise InputError(f"{folder} {fault}: train them again, or leave out --trained")
    check_fits(trained, arguments)


def check(arguments: argparse.Namespace, recipe: Recipe, start: Path | None = None) -> None:
    """Raise InputError if an input of the training does not fit the others.

    The inputs must belong to the same dataset, run and feature store. `start`: a folder with the weights
    that the training starts from. If `start` is given, these weights are checked, too.
    """
    trained_model.check_place(arguments.weights, recipe, arguments.seed, arguments.recipe)
    manifest.read_pairs(arguments.pairs)
    vocabularies.check_pairs(arguments.vocab, arguments.pairs)
    store = phase_run.feature_store(arguments, recipe)
    manifest.check_images(arguments.pairs, store.location.name, store.images)
    check_store_hash((getattr(arguments, "start_from", None) or arguments.weights.parent) / INPUTS, store)
    if start is not None:
        check_fits(trained_model.check_first(start, recipe, arguments.seed), arguments)


def check_store_hash(inputs: Path, store: FeatureStore) -> None:
    """Raise InputError if `store` is not the feature store whose hash is recorded in the file `inputs`.

    `inputs` is written by the stage `recipe`. If it is missing or has no hash, nothing is checked.
    """
    recorded = read_json(inputs, REMEDY) if inputs.is_file() else {}
    if not isinstance(recorded, dict) or "sha256" not in recorded:
        return  # nothing was recorded
    array = store.location.get("features/zarr.json") or b""
    if provenance.sha256(store.record, array) != recorded["sha256"]:
        raise InputError(f"{store.location.name} is not the store that {inputs} names; {REMEDY} again")


def check_fits(trained: Trained, arguments: argparse.Namespace) -> None:
    """Raise InputError if weights do not fit the vocabulary or the store that the arguments name."""
    trained.check_vocabulary(vocabularies.load(arguments.vocab), arguments.vocab)
    trained.check_store(phase_run.feature_store(arguments, trained.recipe))


def use_imported(
    stage: str, arguments: argparse.Namespace, imported: Path, load: Load, measure: Measure | None = None
) -> None:
    """Copy imported weights to the stage's outputs, instead of training.

    The learning curves of the import are copied, too. They are files with headers and without values.

    imported: the folder of the import
    load: function that reads the weights
    measure: function that evaluates the weights, and adds its results to the folder of the curves

    Raises InputError if the weights do not fit the vocabulary or the feature store.
    """
    start = time.monotonic()
    _, trained = load(imported / imported_weights.WEIGHTS)
    check_fits(trained, arguments)
    if process_group.rank_and_world()[0]:
        return  # only the first process writes
    source = read_json(imported / imported_weights.SOURCE, imported_weights.AGAIN)
    with (
        replacing(arguments.weights, trained_model.CONTENTS) as weights,
        replacing(arguments.curves, phase_run.CURVES) as curves,
    ):
        shutil.copytree(imported / imported_weights.WEIGHTS, weights)
        shutil.copytree(imported / imported_weights.CURVES, curves)
        if measure is not None:
            measure(weights, curves)
    provenance.write(stage, arguments.provenance, time.monotonic() - start, **source)
    print(f"no training: the weights in {imported} are imported from {source['checkpoint']}")


if __name__ == "__main__":
    run(main)
