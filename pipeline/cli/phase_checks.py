"""Check that the inputs of a stage that trains belong together: pairs, vocabulary, feature store, weights."""

import argparse
from pathlib import Path

from pipeline.config.recipe_file import TRAIN, Recipe
from pipeline.datasets import manifest
from pipeline.features.object_storage import store_of
from pipeline.features.store import FeatureStore
from pipeline.io import provenance
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.text import vocabularies
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained

INPUTS, REMEDY = "inputs.json", "run `dvc repro recipe` to make it"


def check(arguments: argparse.Namespace, recipe: Recipe, first: str, start: Path | None) -> None:
    """Raise InputError if an input of a stage does not fit the others.

    The inputs must belong to the same dataset, run and feature store. `start`: folder of the weights from
    which the stage's first phase, `first`, starts. They must be those of the phase before it.
    """
    trained_model.check_place(arguments.weights, recipe, arguments.seed, arguments.recipe)
    manifest.read_pairs(arguments.pairs)
    vocabularies.check_pairs(arguments.vocab, arguments.pairs)
    store = feature_store(arguments, recipe)
    manifest.check_images(arguments.pairs, store.location.name, store.images)
    check_store_hash((getattr(arguments, "start_from", None) or arguments.weights.parent) / INPUTS, store)
    before = recipe.before(first)
    if start is not None and before is not None:
        again = "train it again, or leave out --trained"
        remedy = trained_model.REMEDIES["pretrain"] if first == TRAIN else again
        check_fits(trained_model.check(start, before, arguments.seed, remedy), arguments)


def feature_store(arguments: argparse.Namespace, recipe: Recipe) -> FeatureStore:
    return FeatureStore(store_of(arguments.features, recipe.input), expected=recipe.features)


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
    trained.check_store(feature_store(arguments, trained.recipe))
