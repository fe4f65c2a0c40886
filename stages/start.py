"""start@dataset-model-seed: write which store a run reads, by hash: its other stages then see no other store.

The hashes of what else it starts from follow: CLIP's weights; negatives, CUB and NABirds, where its
pre-training reads them. Of a run whose weights are imported, these weights only.
"""

import argparse
from pathlib import Path
from typing import Any

from pipeline.cli.arguments import parsed, to_read
from pipeline.config import recipe_file
from pipeline.config.recipe_file import Recipe
from pipeline.datasets import cub_nabirds
from pipeline.datasets.cub_nabirds import NEGATIVES, RECORDS
from pipeline.features.object_storage import store_of
from pipeline.io.errors import InputError
from pipeline.io.outputs import file_to_write, write_json
from pipeline.io.provenance import sha256
from pipeline.weights import first_weights, imported_weights
from pipeline.weights.imported_weights import FIRST, TRAIN
from stages import run

STORE = ("zarr.json", "features/zarr.json")  # every image's hash, what was made of it, every shard's size


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--recipe", type=to_read, required=True)
    parser.add_argument("--features", type=to_read, required=True, help="the folder of the dataset's stores")
    parser.add_argument("--negatives", type=to_read, default=Path("data/negatives"), help="the folder of all")
    parser.add_argument(
        "--pretraining", type=to_read, default=cub_nabirds.FOLDER, help="the folder of CUB and NABirds"
    )
    parser.add_argument("--imported", type=to_read, help="the folder of the run's imported weights")
    parser.add_argument("--weights", type=to_read, help="the folder that `train` would replace")
    parser.add_argument("--out", type=file_to_write, required=True, help="the JSON file to write")
    arguments = parsed(parser)
    recipe = recipe_file.load(arguments.recipe)
    wanted = recipe.input
    store = Path(store_of(arguments.features, wanted))
    remedy = f"{recipe.model} reads {wanted}; run `dvc repro extract` to make it"
    record = hashed([store / record for record in STORE], remedy)
    first = recipe.adapt or recipe.train
    write_json(arguments.out, {"input": wanted, "sha256": record} | started_from(recipe, first, arguments))


def started_from(
    recipe: Recipe, first: dict[str, Any], arguments: argparse.Namespace
) -> dict[str, str | dict[str, str]]:
    """The hashes of the weights and data that a run starts from. Raises InputError naming what it lacks."""
    for stage, folder in ((FIRST, arguments.out.parent / FIRST), (TRAIN, arguments.weights)):
        if folder:
            imported_weights.check_kept(folder, arguments.imported, stage)
    if imported := imported_weights.hashes(arguments.imported):
        return {"imported": imported}
    weights = {"clip": first_weights.identity(Path(first["start"]))} if "start" in first else {}
    return {**weights, **pretrained_on(recipe, first, arguments)}


def hashed(files: list[Path], remedy: str) -> str:
    """One hash of them all. Raises InputError naming one that is missing."""
    if missing := [file for file in files if not file.is_file()]:
        raise InputError(f"{missing[0]} is missing, and {remedy}")
    return sha256(*[file.read_bytes() for file in files])


def pretrained_on(recipe: Recipe, first: dict[str, Any], arguments: argparse.Namespace) -> dict[str, str]:
    """The hashes of what a pre-training reads beside the pairs."""
    found, tasks = {}, first.get("tasks", {})
    if "fda" in tasks:
        remedy = (
            f"{recipe.model} learns from negatives (its task fda); run `dvc repro negatives` to make them"
        )
        found["negatives"] = hashed([arguments.negatives / f"{recipe.dataset}.jsonl"], remedy)
    for dataset, asked, own in (
        ("cub", "images" in first, (RECORDS, NEGATIVES)),
        ("nabirds", "class_pairs" in tasks, (RECORDS,)),
    ):
        if asked:
            records = cub_nabirds.records_of(arguments.pretraining, dataset)
            stores = cub_nabirds.stores_of(arguments.pretraining, dataset)
            store = Path(store_of(stores, recipe.input))
            files = [*(records / name for name in own), *(store / name for name in STORE)]
            remedy = f"{recipe.model} is pre-trained on it; {cub_nabirds.remedy(dataset)}"
            found[dataset] = hashed(files, remedy)
    return found


if __name__ == "__main__":
    run(main)
