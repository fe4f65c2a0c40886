"""Trained model on disk: a folder with weights.safetensors and model.yaml.

In a package for sharing, the weights file is called model.safetensors, because hubs expect this name. `load`
is the only function that loads models; it checks types, sizes, tensors and hashes.
"""

import sys
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from models.common.shapes_only import shapes_only
from models.common.trainable import Trainable
from pipeline.config import recipe_file
from pipeline.config.recipe_file import TRAIN, Recipe
from pipeline.io.content_hashes import file_hash, sha256, verify
from pipeline.io.errors import InputError, printable
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import Contents, yaml_of
from pipeline.io.records import plain
from pipeline.text.vocabularies import Vocabulary
from pipeline.weights.model_description import Trained, hash_of
from pipeline.weights.tensor_checks import check_attention, check_finite, check_tensors, tensors_in_header

FILE, PACKED, MODEL = "weights.safetensors", "model.safetensors", "model.yaml"
CONTENTS = Contents("weights")
LARGEST = 1 << 16  # largest size of model.yaml in bytes
# stage -> how to make the weights that it writes
REMEDIES = {stage: f"run `dvc repro {stage}` to make it" for stage in ("pretrain", "train")}
START = "set train.fine_tune in params.yaml to a folder of weights that fit, or to null"


def save(folder: Path, trained: Trained, weights: dict[str, Tensor]) -> None:
    """Create `folder` with weights.safetensors and model.yaml, which has hashes of both."""
    folder.mkdir(parents=True)
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / FILE)
    hashes = {**trained.hashes, "weights": sha256(folder / FILE), "model": ""}
    record = asdict(trained) | {"shape": list(trained.shape), "hashes": hashes}
    hashes["model"] = hash_of(record)
    (folder / MODEL).write_text(yaml_of(record), encoding="utf-8")


def load(folder: Path, stage: str = "train", remedy: str | None = None) -> tuple[Any, Trained]:
    """Load the model of the last phase of a stage, in evaluation mode, and its description.

    The model is a Captioner, or for `stage` "pretrain" another Trainable.
    """
    remedy = remedy or REMEDIES[stage]
    trained = describe(folder, remedy)
    if (TRAIN in trained.recipe.phases) != (stage == "train"):
        fault = f"its weights are of the phase {trained.recipe.last}, which the stage {stage} does not run"
        raise InputError(f"{folder}: {fault}; {remedy}")
    return _filled(trained, folder, remedy), trained


def weights_file(folder: Path) -> Path:
    packed = folder / PACKED
    return packed if packed.exists() else folder / FILE


def take_over(model: Trainable, folder: Path) -> None:
    """Load tensors of the previous phase that `model.takes` (prefix there -> prefix here) selects."""
    remedy = REMEDIES["pretrain"]
    tensors = _tensors(folder, remedy, describe(folder, remedy))
    weights = model.state_dict()
    for earlier_prefix, prefix in model.takes.items():
        names = [name for name in tensors if name.startswith(earlier_prefix)]
        taken = {prefix + name.removeprefix(earlier_prefix): tensors[name] for name in names}
        expected = {name: x for name, x in weights.items() if name.startswith(prefix)}
        check_tensors(taken, expected, folder / FILE, remedy)
        weights |= taken
    model.load_state_dict(weights)


def continue_from(model: Trainable, folder: Path, vocabulary: Vocabulary) -> None:
    """Load all trained weights (setting `train.fine_tune`); words must be the same, lengths may differ."""
    trained = describe(folder, START)
    tensors = _tensors(folder, START, trained)
    trained.check_vocabulary(replace(vocabulary, longest=trained.longest, marks=2), f"{folder}: the dataset")
    check_tensors(tensors, model.state_dict(), weights_file(folder), START)
    check_finite(tensors, weights_file(folder), START)
    model.load_state_dict(tensors)


def hash_of_start(folder: Path) -> str:
    return file_hash(weights_file(folder), START)


def describe(folder: Path, remedy: str = REMEDIES["train"]) -> Trained:
    """Return the description in `folder`, whose run must be that of the path (DATASET/MODEL/SEED)."""
    trained = plain(folder / MODEL, Trained, _record(folder, remedy), remedy)
    if trained.hashes and (missing := {"weights", "model"} - trained.hashes.keys()):
        raise InputError(f"{folder / MODEL}: hashes.{min(missing)} is missing; {remedy}")
    claimed = _claimed(folder)
    if claimed not in (None, trained.run):
        raise InputError(f"{folder} holds weights of {trained.run}, as its {MODEL} says; {remedy}")
    if claimed and not trained.hashes:
        raise InputError(f"{folder / MODEL} has no hashes, so its weights cannot be verified; {remedy}")
    return trained


def check_place(folder: Path, recipe: Recipe, seed: int, source: Path) -> None:
    """Raise InputError if a path such as data/weights/tabletop/scorer_cbr/1 belongs to another run."""
    run, claimed = f"{recipe.dataset}/{recipe.model}/{seed}", _claimed(folder)
    if claimed not in (None, run):
        raise InputError(f"{source} is the recipe of {run}, but {folder} is for weights of {claimed}")


def check(folder: Path, recipe: Recipe, seed: int, remedy: str) -> Trained:
    """Return the description of weights, which must be those of a recipe and a seed."""
    trained = describe(folder, remedy)
    run = f"{recipe.dataset}/{recipe.model}/{seed}"
    if trained.run != run:
        raise InputError(f"{folder} holds weights of {trained.run}, not of {run}; {remedy}")
    # imported weights of pre-training have no settings of a training; their tensors are checked when loaded
    compared = fields(Recipe) if trained.iteration or TRAIN in recipe.phases else ()
    for name in (each.name for each in compared):
        if getattr(trained.recipe, name) != getattr(recipe, name):
            raise InputError(f"{folder / MODEL}: recipe.{name} is not that of this run; {remedy}")
    return trained


def _record(folder: Path, remedy: str) -> Any:
    return read_yaml(folder / MODEL, remedy, LARGEST, foreign=True)


def _claimed(folder: Path) -> str | None:
    """Return the run, DATASET/MODEL/SEED, that a path in data/weights or data/recipes names, or None."""
    match folder.absolute().parts:
        case (*_, "data", "weights", dataset, model, seed):
            run = f"{dataset}/{model}/{seed}"
            return run if seed.isdecimal() else None  # scratch folders have other names
        case (*_, "data", "recipes", dataset, model, seed, "pretrained"):
            return f"{dataset}/{model}/{seed}"
    return None


def _filled(trained: Trained, folder: Path, remedy: str) -> Any:
    """Build the model with the weights in `folder`, after checking them."""
    recipe, source = trained.recipe, folder / MODEL
    if not trained.hashes:
        note = f"note: {source} has no hashes: its weights and words are not verified"
        print(printable(note), file=sys.stderr)
    try:
        sizes = recipe.sizes_for(trained.shape, trained.vocabulary, trained.longest)
    except InputError as error:
        raise InputError(f"{source}: {error}; {remedy}") from None
    with shapes_only():
        bare_model = recipe_file.build(recipe, sizes, source)
    file = weights_file(folder)
    header = tensors_in_header(file, remedy)
    check_attention(bare_model, source, remedy)
    check_tensors(header, bare_model.state_dict(), file, remedy)
    tensors = _tensors(folder, remedy, trained)
    check_finite(tensors, file, remedy)
    model = recipe_file.build(recipe, sizes, source)
    model.load_state_dict(tensors)
    return model.eval()


def _tensors(folder: Path, remedy: str, trained: Trained) -> dict[str, Tensor]:
    if trained.hashes and trained.hashes["model"] != hash_of(_record(folder, remedy)):
        raise InputError(f"{folder / MODEL} was changed since it was written (its hashes.model); {remedy}")
    file = weights_file(folder)
    try:
        tensors = load_file(file)
    except (OSError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{file} does not load ({reason}); {remedy}") from None
    verify(folder / MODEL, trained.hashes, remedy, weights=file)
    return tensors
