"""pretrain@dataset-model-seed: the phase before captioning, of a model that learns several tasks first.

With CUB (the model's switch extra_data) there are two phases, first on its single images, then on the
dataset's pairs; with NABirds the latter has its pairs of classes beside. What the first one leaves is kept
beside the weights until the second is finished.
"""

import argparse
from pathlib import Path

from pipeline import provenance
from pipeline.compute import devices
from pipeline.datasets import cub_nabirds
from pipeline.datasets.cub_nabirds import NEGATIVES, RECORDS, records_of, remedy, stores_of
from pipeline.datasets.negatives import REMEDY, read_negatives
from pipeline.datasets.schema import ClassPair
from pipeline.errors import InputError
from pipeline.features.object_storage import store_of
from pipeline.features.store import FeatureStore
from pipeline.inputs import read_text
from pipeline.provenance import sha256
from pipeline.recipes import recipe_file
from pipeline.recipes.recipe_file import Recipe
from pipeline.records import read_records
from pipeline.training import phases
from pipeline.training.class_pairs import CLASS_PAIRS, ClassItems
from pipeline.training.task_sampling import FDA
from stages import run, train

Read = tuple[dict[str, list[str]], tuple[str, ...]]  # negatives by pair, and what says which they are
NONE: Read = ({}, ())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    train.add_arguments(parser)
    parser.add_argument("--negatives", type=Path, help="those of the dataset's pairs, for the task fda")
    parser.add_argument(
        "--pretraining",
        type=Path,
        default=cub_nabirds.FOLDER,
        help="the folder of CUB's and NABirds' records and stores",
    )
    arguments = parser.parse_args()
    recipe = recipe_file.load(arguments.recipe)
    phases.check(recipe, "pretrain")
    tasks = phases.tasks_of(recipe)
    negatives, keys = negatives_of(arguments.negatives) if FDA in tasks else NONE
    classes, more = classes_of(arguments.pretraining, recipe) if CLASS_PAIRS in tasks else ({}, ())
    first = curves = None
    if "images" in recipe.adapt:
        first, curves = on_images(arguments, recipe)
    phase = phases.pretraining(recipe, negatives, (*keys, *more), classes, first, curves)
    train.run_phase("pretrain", arguments, recipe, phase, first)


def negatives_of(path: Path | None, how: str = REMEDY) -> Read:
    """Each pair's."""
    if path is None:
        raise InputError(f"the task {FDA} needs negatives; name their file by --negatives ({how})")
    return read_negatives(path, how), (sha256(read_text(path, how)),)


def classes_of(folder: Path, recipe: Recipe) -> tuple[dict[str, ClassItems], tuple[str, ...]]:
    """NABirds' pairs by split, and what says which they are."""
    path, how = records_of(folder, "nabirds") / RECORDS, remedy("nabirds")
    pairs = list(read_records(path, ClassPair, how))
    store = FeatureStore(store_of(stores_of(folder, "nabirds"), recipe.input), recipe.features, how)
    found = {
        split: ClassItems([pair for pair in pairs if pair.split == split], store)
        for split in ("train", "val")
    }
    return found, (sha256(path.read_bytes(), store.record),)


def on_images(arguments: argparse.Namespace, recipe: Recipe) -> tuple[Path, Path]:
    """The folders of the weights and of the curves that the phase on CUB leaves; trained, if they lack."""
    records, stores = records_of(arguments.pretraining, "cub"), stores_of(arguments.pretraining, "cub")
    asked = FDA in recipe.adapt["images"]["tasks"]
    negatives, keys = negatives_of(records / NEGATIVES, remedy("cub")) if asked else NONE
    phase = phases.image_pretraining(recipe, negatives, keys)
    store = FeatureStore(store_of(stores, recipe.input), recipe.features, remedy("cub"))
    texts = ((arguments.recipe, "recipe"), (arguments.vocab, "vocab"))
    inputs = [read_text(path, f"run `dvc repro {stage}` to make it") for path, stage in texts]
    inputs.append(read_text(records / RECORDS, remedy("cub")))
    keys = (*keys, str(arguments.seed), devices.identity())
    weights, curves = (
        provenance.scratch("pretrain", arguments.weights, "images", what, *inputs, store.record, *keys)
        for what in ("weights", "curves")
    )
    if not curves.exists():  # it is written last
        own = {"pairs": records / RECORDS, "features": str(stores), "weights": weights, "curves": curves}
        own["provenance"] = arguments.provenance.with_stem(f"{arguments.provenance.stem}-images")
        given = argparse.Namespace(**vars(arguments) | own)
        train.run_phase("pretrain", given, recipe, phase, out=arguments.weights)
    return weights, curves


if __name__ == "__main__":
    run(main)
