"""Released checkpoints -> our model of that system (systems.py) in its released variant.

Such a file also holds model_cfg, an object of a class of theirs, which is left alone. Backward reasoning's
weights are not in it.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.backbones.resnet101 import CHANNELS
from models.captioner import Captioner, Sizes
from models.decoder import sinusoids
from models.grid_embedding import DataSizes
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile
from pipeline.authors_checkpoints.expectations import check_finite, check_tensors
from pipeline.authors_checkpoints.systems import DETECTOR, SPEAKER, STATES, SYSTEMS, TITLES, System
from pipeline.errors import InputError
from pipeline.features.store_contents import Spec
from pipeline.recipes import recipe_file, resolving
from pipeline.recipes.recipe_file import Recipe
from pipeline.recipes.trained_model import Trained
from pipeline.vocabularies import Vocabulary

FEATURES = Spec(
    "resnet101", "imagenet", stride=16, finer=False, standardise=False, resize="opencv_bicubic", size=224
)
SIDE = FEATURES.size // FEATURES.stride
SHAPE = CHANNELS[FEATURES.stride], SIDE, SIDE  # C, H, W
PROJECT = f"{DETECTOR}img.0.weight"
POSITIONS = f"{SPEAKER}core.position_enc.pe"
EMBEDDING = f"{SPEAKER}core.embed.weight"


def wanted(system: System, model: Captioner) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all tensors of a checkpoint of this model, theirs."""
    sizes = _papers(model.sizes)
    places = {name: system.place(name, sizes.layers) for name in model.state_dict()}
    shapes = {places[name].name: places[name].shape(tuple(t.shape)) for name, t in model.state_dict().items()}
    unused = dict.fromkeys(system.unused(sizes.layers), ())
    return unused | shapes | {POSITIONS: (sizes.longest, sizes.word_width)}


def tensors_of(file: CheckpointFile) -> dict[str, Tensor]:
    """The checkpoint's tensors by name, the state's name first. Raises InputError where it has none."""
    found: dict[str, Tensor] = {}
    for state in STATES:
        tensors = file.tree.get(state) if isinstance(file.tree, dict) else None
        if not isinstance(tensors, dict) or not all(isinstance(t, Tensor) for t in tensors.values()):
            raise InputError(
                f"{file.path} has no tensors under {state!r}; name a released checkpoint of {TITLES}"
            )
        found |= {f"{state}.{name}": tensor for name, tensor in tensors.items()}
    return found


def system_of(path: Path, found: Iterable[str]) -> System:
    """Whose checkpoint it is. Raises InputError where no name speaks of a layer of any."""
    names = list(found)
    for system in SYSTEMS:
        if any(re.match(system.layers, name) for name in names):
            return system
    raise InputError(
        f"{path}: no tensor is of a layer of {TITLES}; name a released checkpoint of one of them"
    )


def sizes_of(path: Path, found: dict[str, Tensor], heads: int, system: System) -> Sizes:
    """The model's sizes, from the tensors' shapes; `heads` stands in none of them."""

    def shape(name: str, dimensions: int) -> tuple[int, ...]:
        if name not in found:
            raise InputError(f"{path}: {name} is missing; name a released checkpoint of {system.title}")
        if len(size := tuple(found[name].shape)) != dimensions:
            raise InputError(f"{path}: {name} is {size}, and has not {dimensions} dimensions")
        return size

    width, channels, _, _ = shape(PROJECT, 4)
    if heads < 1 or width % heads:
        raise InputError(f"{path}: its width, {width}, is not a multiple of {heads} heads; mend --heads")
    vocabulary, word_width = shape(EMBEDDING, 2)
    return Sizes(
        channels - coordinates(channels, system),
        (shape(f"{DETECTOR}h_embedding.weight", 2)[0], shape(f"{DETECTOR}w_embedding.weight", 2)[0]),
        vocabulary,
        shape(POSITIONS, 2)[0],
        width,
        heads,
        _layers(found, system.layers),
        _layers(found, rf"{SPEAKER}core\.layer\.(\w+)\."),
        word_width,
    )


def coordinates(channels: int, system: System) -> int:
    """How many of the channels that a model of the system reads are no features."""
    beside = channels - SHAPE[0]
    return beside if beside in system.coordinates else system.coordinates[0]


def _layers(names: Iterable[str], pattern: str) -> int:
    """How many layers the names speak of; at least one, whose absence is told by name."""
    return max(1, len({match[1] for name in names if (match := re.match(pattern, name))}))


def imported(
    file: CheckpointFile, vocabulary: Vocabulary, dataset: str, features: Spec, heads: int, seed: int
) -> tuple[Trained, dict[str, Tensor]]:
    """The checkpoint as our weights, to run on those `features`, and what is known of them.

    `seed` is the cell's that it shall stand in. Its iteration is not in the file: 0, its validation
    NaN. Raises InputError naming the tensor or the file that does not fit.
    """
    found = tensors_of(file)
    system = system_of(file.path, found)
    sizes = sizes_of(file.path, found, heads, system)
    beside = found[PROJECT].shape[1] - sizes.channels
    recipe = _recipe(dataset, features, sizes, system, settings(system, beside))
    model = _bare(recipe, sizes)
    remedy = f"name a released checkpoint of {system.title}"
    check_tensors(file.path, found, wanted(system, model), system.title, remedy)
    _check_surroundings(file, sizes, beside, vocabulary)
    tensors = {name: file.floats(name, tensor) for name, tensor in found.items()}
    check_finite(file.path, tensors)
    # we compute the positions, which theirs saves, be it in 16 bits
    if not torch.allclose(tensors[POSITIONS], sinusoids(sizes.longest, sizes.word_width), atol=1e-3):
        raise InputError(f"{file.path}: {POSITIONS} is not the sinusoids that the model adds to words")
    weights = {name: system.place(name, sizes.layers).of(tensors) for name in model.state_dict()}
    trained = Trained(recipe, seed, SHAPE, len(vocabulary), sizes.longest, 0, math.nan)
    return trained, weights


def settings(system: System, beside: int) -> dict[str, Any]:
    """Of our model in the system's released variant, which reads so many coordinates."""
    other = beside != system.coordinates[0]
    return {
        "variant": "released",
        "switches": {"coordinates": bool(beside)} if other else {},
    } | system.settings


def terms(trained: Trained) -> tuple[str, ...]:
    """The names of the loss terms of an imported model: of its learning curves."""
    recipe = trained.recipe
    return _bare(recipe, _papers(recipe.sizes_for(trained.shape, trained.vocabulary, trained.longest))).terms


def _papers(sizes: DataSizes) -> Sizes:
    assert isinstance(sizes, Sizes)  # the systems here are SCORER's and DIRL's
    return sizes


def _bare(recipe: Recipe, sizes: Sizes) -> Captioner:
    with torch.device("meta"):  # names and shapes only
        return recipe_file.build(recipe, sizes)


def _check_surroundings(file: CheckpointFile, sizes: Sizes, beside: int, vocabulary: Vocabulary) -> None:
    """The features that the model reads, and the words that it writes."""
    if (shape := (sizes.channels, *sizes.grid)) != SHAPE:
        raise InputError(
            f"{file.path}: its model reads features of {shape} with {beside} coordinates more, "
            f"but stride {FEATURES.stride} at {FEATURES.size} pixels gives {SHAPE}"
        )
    if sizes.vocabulary != len(vocabulary):
        raise InputError(
            f"{file.path}: {EMBEDDING} is of {sizes.vocabulary} words, the vocabulary of {len(vocabulary)}; "
            f"give the one that it was trained with"
        )


def _recipe(dataset: str, features: Spec, sizes: Sizes, system: System, own: dict[str, Any]) -> Recipe:
    """How the model is built. How it was trained is not in the file: no loss and no training."""
    widths = {
        key: getattr(sizes, key) for key in ("width", "heads", "layers", "decoder_layers", "word_width")
    }
    code = resolving.code_of(system.model)
    return Recipe(dataset, system.model, own, widths, {}, {}, asdict(features), code)
