"""pretrain@dataset-model-seed: train the pre-training phases of a model.

The models' entries declare the phases (entry.py). CLIP4IDC learns retrieval; the retrieval scores on the
test pairs are written next to the learning curves. IDC-PCL learns several tasks. If pre-training uses CUB, a
phase on CUB's single images comes first, in a scratch folder.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from models.common.entry import EarlierPhase
from pipeline.cli import phase_run
from pipeline.cli.arguments import new_parser, parsed, to_read
from pipeline.cli.phase_run import Measure
from pipeline.config import params, recipe_file
from pipeline.config.recipe_file import Recipe
from pipeline.datasets import cub_nabirds
from pipeline.datasets.cub_nabirds import NEGATIVES, RECORDS, records_of, stores_of
from pipeline.datasets.negatives import REMEDY, PairNegatives, captions_of, read_negatives
from pipeline.datasets.schema import ClassPair, read_pairs
from pipeline.features.object_storage import store_of
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_text, read_yaml
from pipeline.io.outputs import replacing
from pipeline.io.provenance import sha256
from pipeline.io.records import read_records
from pipeline.negatives.generation import generate
from pipeline.scoring import retrieval as retrieving
from pipeline.training import phases
from pipeline.training.phases import OtherInputs
from pipeline.training.task_sampling import CLASS_PAIRS, FDA, ClassItems
from pipeline.weights import imported_weights, trained_model
from stages import run, train


def main() -> None:
    parser = new_parser("python -m stages.pretrain", __doc__)
    add = parser.add_argument
    phase_run.add_arguments(parser)
    add("--negatives", type=to_read, help="a file of negatives for the task fda; default: generate them")
    add("--pretraining", type=to_read, default=cub_nabirds.FOLDER, help="the folder of CUB and NABirds")
    arguments = parsed(parser)
    recipe = None if read_yaml(arguments.recipe, train.REMEDY) is None else recipe_file.load(arguments.recipe)
    if recipe is None or not recipe.before:
        raise InputError(f"{arguments.recipe}: the model has no pre-training; choose another model")
    measure = retrieval(arguments) if recipe.entry.retrieves else None
    if folder := imported_weights.find(arguments.imported, "pretrain"):
        train.use_imported("pretrain", arguments, folder, trained_model.load_first, measure)
    elif imported_weights.find(arguments.imported, "train"):
        folders = ((arguments.weights, trained_model.CONTENTS), (arguments.curves, phase_run.CURVES))
        for path, contents in folders:
            with replacing(path, contents) as empty:
                empty.mkdir()
        print("no pre-training: the weights of captioning are imported")
    else:
        pretrain(arguments, recipe, measure)


def pretrain(arguments: argparse.Namespace, recipe: Recipe, measure: Measure | None) -> None:
    """Train the recipe's pre-training phases, and write the weights to `arguments.weights`.

    `measure` evaluates the retrieval of the last phase's weights; None: no evaluation.
    """
    train.check(arguments, recipe)
    *earlier, last = recipe.before
    inputs = other_inputs(arguments, recipe, last)
    for declared in earlier:
        weights, curves = train_on_cub(arguments, recipe, declared)
        inputs = replace(inputs, weights=weights, curves={phase_run.IMAGES: curves})
    phase = phases.pretraining(recipe, last, inputs)
    phase_run.run_phase("pretrain", arguments, recipe, phase, inputs.weights, measure=measure)


def retrieval(arguments: argparse.Namespace) -> Measure:
    """Return a function that evaluates retrieval. Raises InputError if no test pair has a change."""
    retrieving.candidates(arguments.pairs, "test")
    inputs = {"pairs": arguments.pairs, "vocab": arguments.vocab, "features": arguments.features}
    return lambda weights, curves: retrieving.write(curves, weights, **inputs)


def other_inputs(arguments: argparse.Namespace, recipe: Recipe, phase: EarlierPhase) -> OtherInputs:
    """Return the inputs that a phase needs besides the dataset's pairs: negatives, and NABirds' pairs."""
    tasks = recipe.settings_of(phase).get("tasks", {})
    inputs = OtherInputs()
    if FDA in tasks:
        inputs = negatives(arguments, recipe.dataset)
    if CLASS_PAIRS in tasks:
        classes, key = nabirds_pairs(arguments.pretraining, recipe, phase)
        inputs = replace(inputs, classes=classes, keys=(*inputs.keys, key))
    return inputs


def negatives(arguments: argparse.Namespace, dataset: str) -> OtherInputs:
    """Return the negatives (wrong captions) of the dataset's pairs, for the task fda, as OtherInputs.

    They are read from the file --negatives, or generated without this option. Raises InputError if the
    captions of a pair in this file differ from those of the dataset.
    """
    pairs = read_pairs(arguments.pairs)
    if arguments.negatives:
        captions = {pair.pair_id: pair.captions for pair in pairs}
        for item in read_records(arguments.negatives, PairNegatives, REMEDY):
            if captions.get(item.pair_id) != item.captions:
                raise InputError(f"{arguments.negatives}: {item.pair_id} has other captions; {REMEDY} again")
        return negatives_in(arguments.negatives, REMEDY)
    grammar, seed = params.load().negatives.of(dataset)
    captions_by_pair = captions_of(generate(grammar, pairs, seed))
    return OtherInputs(captions_by_pair, keys=(sha256(repr(captions_by_pair)),))


def negatives_in(path: Path, remedy: str) -> OtherInputs:
    return OtherInputs(read_negatives(path, remedy), keys=(sha256(read_text(path, remedy)),))


def nabirds_pairs(folder: Path, recipe: Recipe, phase: EarlierPhase) -> tuple[dict[str, ClassItems], str]:
    """Return the pairs of NABirds as a dictionary (split -> pairs), and a hash.

    The hash identifies the records of the pairs and the store of their features.
    """
    path, remedy = records_of(folder, "nabirds") / RECORDS, cub_nabirds.remedy("nabirds")
    pairs = list(read_records(path, ClassPair, remedy))
    store = FeatureStore(store_of(stores_of(folder, "nabirds"), recipe.input), recipe.features, remedy)
    classes: Any = phases.bare(recipe, phase).classes
    items = {
        split: ClassItems([pair for pair in pairs if pair.split == split], store, classes)
        for split in ("train", "val")
    }
    return items, sha256(path.read_bytes(), store.record)


def train_on_cub(arguments: argparse.Namespace, recipe: Recipe, declared: EarlierPhase) -> tuple[Path, Path]:
    """Train the phase `declared` on CUB, unless it is finished. Return its folders of weights and curves."""
    records, stores = records_of(arguments.pretraining, "cub"), stores_of(arguments.pretraining, "cub")
    pairs, remedy = records / RECORDS, cub_nabirds.remedy("cub")
    read_text(pairs, remedy)  # a missing file is named here
    has_fda = FDA in recipe.settings_of(declared)["tasks"]
    inputs = negatives_in(records / NEGATIVES, remedy) if has_fda else OtherInputs()
    phase = phases.pretraining(recipe, declared, inputs)
    name, features = phase_run.IMAGES, str(stores)
    return train.run_earlier("pretrain", arguments, recipe, phase, name, pairs=pairs, features=features)


if __name__ == "__main__":
    run(main)
