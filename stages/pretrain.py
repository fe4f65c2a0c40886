"""pretrain@dataset-model-seed: what a model learns before it captions.

CLIP4IDC learns to retrieve, IDC-PCL several tasks: the phases stand where the models are (entry.py).
Of two phases (IDC-PCL's with CUB, first on its single images) what the first one leaves is kept beside the
weights until the second is finished. Several processes share a phase as they share `train`.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from models.common.entry import EarlierPhase
from pipeline.cli.arguments import parsed, to_read
from pipeline.compute import devices
from pipeline.config import recipe_file
from pipeline.config.recipe_file import Recipe
from pipeline.datasets import cub_nabirds
from pipeline.datasets.cub_nabirds import NEGATIVES, RECORDS, records_of, remedy, stores_of
from pipeline.datasets.negatives import REMEDY, Negatives, read_negatives
from pipeline.datasets.schema import ClassPair, read_pairs
from pipeline.features.object_storage import store_of
from pipeline.features.store import FeatureStore
from pipeline.io import provenance
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json, read_text, read_yaml
from pipeline.io.outputs import replacing
from pipeline.io.provenance import sha256
from pipeline.io.records import read_records
from pipeline.training import phases
from pipeline.training.class_pairs import CLASS_PAIRS, ClassItems
from pipeline.training.phases import Beside
from pipeline.training.task_sampling import FDA
from pipeline.weights import imported_weights, trained_model
from stages import run, train


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    train.add_arguments(parser)
    parser.add_argument("--negatives", type=to_read, help="those of the dataset's pairs, for the task fda")
    parser.add_argument(
        "--pretraining",
        type=to_read,
        default=cub_nabirds.FOLDER,
        help="the folder of CUB's and NABirds' records and stores",
    )
    arguments = parsed(parser)
    if read_yaml(arguments.recipe, train.REMEDY) is None:
        raise InputError(f"{arguments.recipe}: the model has no phase before captioning; take another model")
    if folder := imported_weights.found(arguments.imported, "pretrain"):
        train.take_over("pretrain", arguments, folder, trained_model.load_first)
        return
    if imported_weights.found(arguments.imported, "train"):
        nothing(arguments, "nothing is trained before weights that are imported")
        return
    recipe = recipe_file.load(arguments.recipe)
    if not recipe.before:
        raise InputError(
            f"{arguments.recipe}: {recipe.model} has no phase before captioning; take another model"
        )
    train.check(arguments, recipe)
    *earlier, last = recipe.before
    found = beside(arguments, recipe, last)
    for phase in earlier:
        weights, curves = on_images(arguments, recipe, phase)
        found = replace(found, weights=weights, curves=curves)
    train.run_phase("pretrain", arguments, recipe, phases.before(recipe, last, found), found.weights)


def nothing(arguments: argparse.Namespace, why: str) -> None:
    """Leave both outputs empty."""
    for path, contents in ((arguments.weights, trained_model.CONTENTS), (arguments.curves, train.CURVES)):
        with replacing(path, contents) as folder:
            folder.mkdir()
    print(why)


def beside(arguments: argparse.Namespace, recipe: Recipe, phase: EarlierPhase) -> Beside:
    """What a phase on the dataset's pairs reads beside them."""
    tasks = recipe.settings_of(phase).get("tasks", {})
    found = Beside()
    if FDA in tasks:
        found = negatives_of(arguments.negatives)
        check_negatives(arguments)
    if CLASS_PAIRS in tasks:
        classes, key = classes_of(arguments.pretraining, recipe, phase)
        found = replace(found, classes=classes, keys=(*found.keys, key))
    return found


def negatives_of(path: Path | None, how: str = REMEDY) -> Beside:
    """Each pair's."""
    if path is None:
        raise InputError(f"the task {FDA} needs negatives; name their file by --negatives ({how})")
    return Beside(read_negatives(path, how), keys=(sha256(read_text(path, how)),))


def check_negatives(arguments: argparse.Namespace) -> None:
    """Raise InputError where the negatives are of other pairs, or not those that inputs.json names."""
    captions = {pair.pair_id: pair.captions for pair in read_pairs(arguments.pairs)}
    for own in read_records(arguments.negatives, Negatives, REMEDY):
        if captions.get(own.pair_id) != own.captions:
            raise InputError(f"{arguments.negatives}: {own.pair_id} is of other pairs; {REMEDY} again")
    started = arguments.weights.with_name(train.INPUTS)
    known = read_json(started, train.REMEDY) if started.is_file() else {}
    noted = known.get("negatives") if isinstance(known, dict) else None
    if noted is not None and noted != sha256(arguments.negatives.read_bytes()):
        raise InputError(f"{arguments.negatives} is not the file that {started} names; {REMEDY} again")


def classes_of(folder: Path, recipe: Recipe, phase: EarlierPhase) -> tuple[dict[str, ClassItems], str]:
    """NABirds' pairs by split, and what says which they are."""
    path, how = records_of(folder, "nabirds") / RECORDS, remedy("nabirds")
    pairs = list(read_records(path, ClassPair, how))
    store = FeatureStore(store_of(stores_of(folder, "nabirds"), recipe.input), recipe.features, how)
    classes: Any = phases.bare(recipe, phase).classes
    found = {
        split: ClassItems([pair for pair in pairs if pair.split == split], store, classes)
        for split in ("train", "val")
    }
    return found, sha256(path.read_bytes(), store.record)


def on_images(arguments: argparse.Namespace, recipe: Recipe, declared: EarlierPhase) -> tuple[Path, Path]:
    """The folders of the weights and of the curves that the phase on CUB leaves; trained, if they lack."""
    records, stores = records_of(arguments.pretraining, "cub"), stores_of(arguments.pretraining, "cub")
    asked = FDA in recipe.settings_of(declared)["tasks"]
    found = negatives_of(records / NEGATIVES, remedy("cub")) if asked else Beside()
    phase = phases.before(recipe, declared, found)
    store = FeatureStore(store_of(stores, recipe.input), recipe.features, remedy("cub"))
    texts = ((arguments.recipe, "recipe"), (arguments.vocab, "vocab"))
    inputs = [read_text(path, f"run `dvc repro {stage}` to make it") for path, stage in texts]
    inputs.append(read_text(records / RECORDS, remedy("cub")))
    keys = (*found.keys, str(arguments.seed), devices.identity())
    weights, curves = (
        provenance.scratch("pretrain", arguments.weights, "images", what, *inputs, store.record, *keys)
        for what in ("weights", "curves")
    )
    if not curves.exists():  # it is written last
        own = {"pairs": records / RECORDS, "features": str(stores), "weights": weights, "curves": curves}
        own["live"] = arguments.live and arguments.live.with_name(f"{arguments.live.name}-{train.IMAGES}")
        own["provenance"] = arguments.provenance.with_stem(f"{arguments.provenance.stem}-images")
        given = argparse.Namespace(**vars(arguments) | own)
        train.run_phase("pretrain", given, recipe, phase, out=arguments.weights)
    return weights, curves


if __name__ == "__main__":
    run(main)
