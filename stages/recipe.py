"""recipe@dataset-model-seed: write the settings that affect a run's training, and the hashes of its inputs.

recipe.yaml has the settings and the model's source files. pretrain.yaml has only the settings of pre-training
(or null), so that pre-training stays cached if the settings of captioning change. inputs.json has the hashes
of the run's feature store and of other inputs (CLIP's weights, CUB, NABirds, negatives, imported weights).
"""

import argparse
from pathlib import Path
from typing import Any

from pipeline.cli.arguments import new_parser, parsed, to_read, word
from pipeline.config import params, recipe_file, resolving
from pipeline.config.recipe_file import TRAIN, Recipe
from pipeline.datasets import cub_nabirds
from pipeline.datasets.cub_nabirds import NEGATIVES, RECORDS
from pipeline.features.object_storage import store_of
from pipeline.io.content_hashes import file_hash
from pipeline.io.errors import InputError
from pipeline.io.outputs import file_to_write, write_json, write_text
from pipeline.io.provenance import sha256
from pipeline.weights import imported_weights, trained_model
from pipeline.weights.imported_weights import PRETRAINED
from stages import run

STORE = ("zarr.json", "features/zarr.json")  # hashes of the images, their processing, and sizes of the shards


def main() -> None:
    parser = new_parser("python -m stages.recipe", __doc__)
    add = parser.add_argument
    add("--dataset", type=word, required=True)
    add("--model", type=word, required=True)
    add("--out", type=file_to_write, required=True, help="recipe.yaml to write")
    add("--pretrain", type=file_to_write, help="pretrain.yaml to write")
    add("--inputs", type=file_to_write, help="inputs.json to write")
    add("--features", type=to_read, help="the folder of the dataset's feature stores, for --inputs")
    add("--pretraining", type=to_read, default=cub_nabirds.FOLDER, help="the folder of CUB and NABirds")
    add("--imported", type=to_read, help="the folder of the run's imported weights")
    add("--weights", type=to_read, help="the folder that `train` would replace")
    arguments = parsed(parser)
    recipe = resolving.resolve(params.load(), arguments.dataset, arguments.model)
    if arguments.inputs:
        write_inputs(recipe, arguments)
    recipe_file.save(arguments.out, recipe)
    if arguments.pretrain and recipe.pretraining:
        recipe_file.save(arguments.pretrain, recipe.pretraining)
    elif arguments.pretrain:
        write_text(arguments.pretrain, "null\n")  # DVC warns of an empty file


def write_inputs(recipe: Recipe, arguments: argparse.Namespace) -> None:
    """Write the hashes of the run's inputs to the file --inputs.

    Raises InputError if --features or an input file is missing, if training would replace imported weights
    that have no other copy, or if it would start from its own output.
    """
    if arguments.features is None:
        raise InputError("--inputs needs --features, the folder of the dataset's stores; add it")
    store = Path(store_of(arguments.features, recipe.input))
    remedy = f"{recipe.model} reads {recipe.input}; run `dvc repro extract` to make it"
    known = {"input": recipe.input, "sha256": hashed([store / record for record in STORE], remedy)}
    pretrained = arguments.inputs.with_name(PRETRAINED)
    for stage, folder in (("pretrain", pretrained), ("train", arguments.weights)):
        if folder:
            imported_weights.check_kept(folder, arguments.imported, stage)
    if "fine_tune" in recipe.phases[TRAIN]:
        check_start(Path(recipe.phases[TRAIN]["fine_tune"]), arguments.weights)
    imported = imported_weights.hashes(arguments.imported)
    found = {"imported": imported} if imported else pretraining_hashes(recipe, arguments)
    write_json(arguments.inputs, known | found)


def pretraining_hashes(recipe: Recipe, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return hashes or settings that identify the inputs of a run's pre-training, by name.

    clip: hash of CLIP's weights, also if a run without pre-training is initialised with them
    fine_tune: hash of the trained weights that the training starts from
    cub, nabirds: one hash for each of these datasets
    negatives: the grammar and the seed from which negatives are generated

    The dictionary has only the inputs that the run uses. Raises InputError if a file is missing.
    """
    found: dict[str, Any] = {}
    first = next(iter(recipe.phases.values()))
    if "fine_tune" in first:
        found["fine_tune"] = trained_model.hash_of_start(Path(first["fine_tune"]))
    if "start" in first:
        found["clip"] = file_hash(first["start"], imported_weights.REMEDY)
    if recipe.asks_negatives:
        grammar, seed = params.load().negatives.of(recipe.dataset)
        found["negatives"] = {"grammar": grammar, "seed": seed}
    for dataset in recipe.pretrained_on:
        records = cub_nabirds.records_of(arguments.pretraining, dataset)
        store = Path(store_of(cub_nabirds.stores_of(arguments.pretraining, dataset), recipe.input))
        own = (RECORDS, NEGATIVES) if dataset == "cub" else (RECORDS,)
        files = [*(records / name for name in own), *(store / name for name in STORE)]
        remedy = f"{recipe.model} is pre-trained on it; {cub_nabirds.remedy(dataset)}"
        found[dataset] = hashed(files, remedy)
    return found


def check_start(start: Path, weights: Path | None) -> None:
    """Raise InputError if a run would start from its own weights, which DVC removes before the training."""
    if weights is not None and start.resolve() == weights.resolve():
        raise InputError(
            f"params.yaml: train.fine_tune: {start} is the output of this run, which DVC removes first; copy "
            "the folder to another place, and name that"
        )


def hashed(files: list[Path], remedy: str) -> str:
    if missing := [file for file in files if not file.is_file()]:
        raise InputError(f"{missing[0]} is missing: {remedy}")
    return sha256(*[file.read_bytes() for file in files])


if __name__ == "__main__":
    run(main)
