"""pretrain@dataset-model-seed: train the pre-training phases of a model.

The models' entries declare the phases (entry.py). CLIP4IDC's phase `adapt` learns retrieval; the retrieval
scores on the test pairs are written next to the learning curves. IDC-PCL's phase `pretrain` learns several
tasks. If pre-training uses CUB, the phase `images` on CUB's single images comes before it.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.cli import phase_checks, phase_run
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
from pipeline.training.phases import PhaseInputs
from pipeline.training.task_sampling import CLASS_PAIRS, FDA, ClassItems
from pipeline.weights import imported_weights, trained_model
from stages import run


def main() -> None:
    parser = new_parser("python -m stages.pretrain", __doc__)
    add = parser.add_argument
    phase_run.add_arguments(parser)
    add("--negatives", type=to_read, help="a file of negatives for the task fda; default: generate them")
    add("--pretraining", type=to_read, default=cub_nabirds.FOLDER, help="the folder of CUB and NABirds")
    arguments = parsed(parser)
    is_null = read_yaml(arguments.recipe, phase_checks.REMEDY) is None
    recipe = None if is_null else recipe_file.load(arguments.recipe).pretraining
    if recipe is None:
        raise InputError(f"{arguments.recipe}: the model has no pre-training; choose another model")
    measure = retrieval(arguments) if recipe.entry.retrieves else None
    if folder := imported_weights.find(arguments.imported, "pretrain"):
        phase_run.use_imported("pretrain", arguments, folder, measure)
    elif imported_weights.find(arguments.imported, "train"):
        folders = ((arguments.weights, trained_model.CONTENTS), (arguments.curves, phase_run.CURVES))
        for path, contents in folders:
            with replacing(path, contents) as empty:
                empty.mkdir()
        print("no pre-training: the weights of captioning are imported")
    else:
        inputs = {name: phase_inputs(arguments, recipe.until(name)) for name in recipe.phases}
        phase_run.run_phases("pretrain", arguments, recipe, inputs, measure=measure)


def retrieval(arguments: argparse.Namespace) -> Measure:
    """Return a function that evaluates retrieval. Raises InputError if no test pair has a change."""
    retrieving.candidates(arguments.pairs, "test")
    inputs = {"pairs": arguments.pairs, "vocab": arguments.vocab, "features": arguments.features}
    return lambda weights, curves: retrieving.write(curves, weights, **inputs)


def phase_inputs(arguments: argparse.Namespace, recipe: Recipe) -> PhaseInputs:
    """Return the inputs of a recipe's last phase: CUB if it is trained on it, negatives, NABirds' pairs."""
    tasks = recipe.phases[recipe.last].get("tasks", {})
    if recipe.declared and recipe.declared.dataset == "cub":
        return cub_inputs(arguments.pretraining, has_negatives=FDA in tasks)
    inputs = PhaseInputs()
    if FDA in tasks:
        inputs = negatives(arguments, recipe.dataset)
    if CLASS_PAIRS in tasks:
        classes, key = nabirds_pairs(arguments.pretraining, recipe)
        inputs = replace(inputs, classes=classes, keys=(*inputs.keys, key))
    return inputs


def cub_inputs(folder: Path, has_negatives: bool) -> PhaseInputs:
    """Return CUB's captions of single images, their features, and its file of negatives."""
    records, stores = records_of(folder, "cub"), stores_of(folder, "cub")
    pairs, remedy = records / RECORDS, cub_nabirds.remedy("cub")
    read_text(pairs, remedy)  # a missing file is named here
    inputs = negatives_in(records / NEGATIVES, remedy) if has_negatives else PhaseInputs()
    return replace(inputs, data={"pairs": pairs, "features": str(stores)})


def negatives(arguments: argparse.Namespace, dataset: str) -> PhaseInputs:
    """Return the negatives (wrong captions) of the dataset's pairs, for the task fda, as PhaseInputs.

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
    return PhaseInputs(negatives=captions_by_pair, keys=(sha256(repr(captions_by_pair)),))


def negatives_in(path: Path, remedy: str) -> PhaseInputs:
    return PhaseInputs(negatives=read_negatives(path, remedy), keys=(sha256(read_text(path, remedy)),))


def nabirds_pairs(folder: Path, recipe: Recipe) -> tuple[dict[str, ClassItems], str]:
    """Return the pairs of NABirds as a dictionary (split -> pairs), and a hash.

    The hash identifies the records of the pairs and the store of their features.
    """
    path, remedy = records_of(folder, "nabirds") / RECORDS, cub_nabirds.remedy("nabirds")
    pairs = list(read_records(path, ClassPair, remedy))
    store = FeatureStore(store_of(stores_of(folder, "nabirds"), recipe.input), recipe.features, remedy)
    classes: Any = phases.bare(recipe).classes
    items = {
        split: ClassItems([pair for pair in pairs if pair.split == split], store, classes)
        for split in ("train", "val")
    }
    return items, sha256(path.read_bytes(), store.record)


if __name__ == "__main__":
    run(main)
