"""Trained model on disk: a folder with weights.safetensors and model.yaml.

In a package for sharing, the weights file is called model.safetensors, because hubs expect this name. `load`
and `load_first` are the only functions that load models; they check types, sizes, tensors and hashes.
"""

import hashlib
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from models.common.captioner import Captioner
from models.common.trainable import Trainable
from pipeline.config import recipe_file
from pipeline.config.recipe_file import Recipe
from pipeline.io.content_hashes import sha256
from pipeline.io.errors import InputError, printable
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import Contents, yaml_of
from pipeline.weights.model_description import Trained, described, hash_of
from pipeline.weights.tensor_checks import check_attention, check_finite, check_tensors, tensors_said

FILE, PACKED, MODEL = "weights.safetensors", "model.safetensors", "model.yaml"
CONTENTS = Contents("weights")
LARGEST = 1 << 16  # largest size of model.yaml in bytes
REMEDY, FIRST = "run `dvc repro train` to make it", "run `dvc repro pretrain` to make it"


def save(folder: Path, trained: Trained, weights: dict[str, Tensor]) -> None:
    """Create `folder` with weights.safetensors and model.yaml, which has the hashes of both files."""
    folder.mkdir(parents=True)
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / FILE)
    hashes = {**trained.hashes, "weights": sha256(folder / FILE), "model": ""}
    record = asdict(trained) | {"shape": list(trained.shape), "hashes": hashes}
    hashes["model"] = hash_of(record)
    (folder / MODEL).write_text(yaml_of(record), encoding="utf-8")


def load(folder: Path, named: Path | None = None, remedy: str = REMEDY) -> tuple[Captioner, Trained]:
    """Load the trained model of a folder; return the model, in evaluation mode, and its description.

    Raises InputError if a file is missing or damaged, or belongs to another model. The message contains
    `named`, if given, instead of the folder, and ends with `remedy`.
    """
    trained = describe(folder, named, remedy)
    model: Captioner = _filled(trained, folder, named or folder, remedy, None)
    return model, trained


def weights_file(folder: Path) -> Path:
    packed = folder / PACKED
    return packed if packed.exists() else folder / FILE


def load_first(folder: Path) -> tuple[Trainable, Trained]:
    """Load the model of the last pretraining phase from `folder`, in the same way as `load`."""
    trained = describe(folder, None, FIRST)
    if not (phases := trained.recipe.entry.phases):
        raise InputError(f"{folder}: {trained.recipe.model} has no pretraining phase; {FIRST}")
    model: Trainable = _filled(trained, folder, folder, FIRST, phases[-1].settings)
    return model, trained


def take_over(model: Trainable, folder: Path) -> None:
    """Load tensors of the previous phase from `folder`; the model's attribute `takes` selects them."""
    found = _tensors(folder, folder, FIRST, describe(folder, None, FIRST))
    own = model.state_dict()
    for before, here in model.takes.items():
        taken = {here + name.removeprefix(before): x for name, x in found.items() if name.startswith(before)}
        wanted = {(name, x.shape) for name, x in own.items() if name.startswith(here)}
        if wrong := wanted ^ {(name, x.shape) for name, x in taken.items()}:
            name = before + min(wrong)[0].removeprefix(here)
            raise InputError(
                f"{folder / FILE}: {name} is missing, of another shape, or not in the model; {FIRST}"
            )
        own |= taken
    model.load_state_dict(own)


def weights_bytes(folder: Path, remedy: str = FIRST) -> bytes:
    """Return the bytes of the weights file. Raises InputError if the file cannot be read."""
    try:
        return (folder / FILE).read_bytes()
    except OSError as error:
        raise InputError(f"{folder / FILE} cannot be read ({error.strerror}); {remedy}") from None


def sha256_of(folder: Path) -> str:
    """Return the SHA-256 of the weights file. Raises InputError if the file cannot be read."""
    return hashlib.sha256(weights_bytes(folder, REMEDY)).hexdigest()


def describe(folder: Path, named: Path | None = None, remedy: str = REMEDY) -> Trained:
    """Return the description of a trained model. Raises InputError if its folder names another run."""
    named = named or folder
    trained = described(named / MODEL, _record(folder, remedy), remedy)
    claimed = _claimed(named)
    if claimed not in (None, trained.run):
        raise InputError(f"{named} holds weights of {trained.run}, as its {MODEL} says; {remedy}")
    if claimed and not trained.hashes:
        raise InputError(f"{named / MODEL} has no hashes, so its weights cannot be verified; {remedy}")
    return trained


def check_place(folder: Path, recipe: Recipe, seed: int, source: Path) -> None:
    """Raise InputError if the path `folder` names another run than `recipe` and `seed`.

    `source` is the recipe's file, which the message names.
    """
    run, claimed = f"{recipe.dataset}/{recipe.model}/{seed}", _claimed(folder)
    if claimed not in (None, run):
        raise InputError(f"{source} is the recipe of {run}, but {folder} is for weights of {claimed}")


def check_first(folder: Path, recipe: Recipe, seed: int) -> Trained:
    """Return the description of pretrained weights. Raises InputError if they do not fit the recipe."""
    trained = describe(folder, None, FIRST)
    own = f"{recipe.dataset}/{recipe.model}/{seed}"
    if trained.run != own:
        raise InputError(f"{folder} holds weights of {trained.run}, not of {own}; {FIRST}")
    first = trained.recipe
    settings = (("sizes", first.sizes, recipe.sizes), ("adapt", first.adapt, recipe.adapt))
    for name, found, wanted in settings:
        if found != wanted and trained.iteration:  # imported weights have no training settings
            raise InputError(f"{folder / MODEL}: recipe.{name} differs from the captioning's; {FIRST}")
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


def _filled(trained: Trained, folder: Path, named: Path, remedy: str, phase: str | None) -> Any:
    """Build the model of a phase (None: captioning) with the weights in `folder`, after checking them."""
    recipe, source = trained.recipe, named / MODEL
    if not trained.hashes:
        note = f"note: {source} has no hashes: its weights and words are not verified"
        print(printable(note), file=sys.stderr)
    try:
        sizes = recipe.sizes_for(trained.shape, trained.vocabulary, trained.longest)
    except InputError as error:
        raise InputError(f"{source}: {error}; {remedy}") from None
    with torch.device("meta"):  # tensors have shapes but no values
        bare = recipe_file.build(recipe, sizes, source, phase)
    file = weights_file(folder)
    name = f"{named / file.name}"
    found = tensors_said(file, name, remedy)
    check_attention(bare, source, remedy)
    check_tensors(found, bare.state_dict(), name, remedy)
    tensors = _tensors(folder, named, remedy, trained)
    check_finite(tensors, name, remedy)
    model = recipe_file.build(recipe, sizes, source, phase)
    model.load_state_dict(tensors)
    return model.eval()


def _tensors(folder: Path, named: Path, remedy: str, trained: Trained) -> dict[str, Tensor]:
    if trained.hashes and trained.hashes["model"] != hash_of(_record(folder, remedy)):
        raise InputError(f"{named / MODEL} was changed since it was written (its hashes.model); {remedy}")
    file = weights_file(folder)
    name = named / file.name
    try:
        found = sha256(file)
        tensors = load_file(file)
    except (OSError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{name} does not load ({reason}); {remedy}") from None
    if trained.hashes.get("weights", found) != found:
        raise InputError(f"{name} is not the file that {MODEL} names by hashes.weights; {remedy}")
    return tensors
