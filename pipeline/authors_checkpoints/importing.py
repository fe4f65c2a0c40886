"""Convert checkpoints that papers' authors released to weights of our models.

The converted model has the variant `released`. A System (tensor_table.py) describes the program of a paper.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import models
from models.backbones.backbone import CHANNELS
from models.common.grid_embedding import DataSizes
from models.common.shapes_only import shapes_only
from models.common.trainable import Trainable
from pipeline.authors_checkpoints import clip, clip_models, tensor_table
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile, tensors_of
from pipeline.authors_checkpoints.grid_models import CARD, DIRL, DUDA, MEDIC, SCORER, VARD
from pipeline.authors_checkpoints.tensor_table import Match, Sizes, System
from pipeline.config import params, recipe_file, resolving
from pipeline.config.recipe_file import TRAIN, Recipe
from pipeline.config.store_contents import IMPORTED, PixelSpec, Spec, pixel_spec, spec
from pipeline.io.errors import InputError
from pipeline.text import vocabularies
from pipeline.text.vocabularies import ClipVocabulary, Vocabulary, words_identity
from pipeline.weights.model_description import Part, Trained

# a file belongs to the first system whose `marks`, patterns of tensor names, all match
SYSTEMS: tuple[System, ...] = (
    clip_models.CLIP4IDC,
    clip_models.CLIP4IDC_ADAPTATION,
    VARD,
    DUDA,
    CARD,
    SCORER,
    MEDIC,  # before DIRL, whose names it has, too
    DIRL,
)
SYSTEMS += (clip_models.IDC_PCL_PRETRAINED, clip_models.IDC_PCL_JUDGING, clip_models.IDC_PCL)
TITLES = ", ".join(dict.fromkeys(system.title for system in SYSTEMS))
DATA = tuple(field.name for field in fields(DataSizes))


@dataclass(frozen=True)
class Options:
    """Properties of a checkpoint that its file does not contain.

    `heads` is the number of attention heads, and `longest` the length of the longest caption in tokens.
    If one is None, the value in the authors' program is used. `intra` matters only for CLIP4IDC: so many
    blocks of the image encoder read each image alone. The other blocks read both images together.
    """

    vocabulary: Path
    dataset: str
    seed: int
    heads: int | None = None
    longest: int | None = None
    intra: int = 9


def system_of(path: Path, tensors: Mapping[str, Tensor]) -> System:
    """Return the system to which a file with these tensors belongs. Raises InputError if no system fits."""
    for system in SYSTEMS:
        if system.is_of(tensors):
            return system
    raise InputError(f"{path} has no tensors of {TITLES}; name a released checkpoint of one of them")


def imported(file: CheckpointFile, options: Options) -> tuple[Trained, dict[str, Tensor], Trainable]:
    """Convert a checkpoint to (description of the weights, the weights, our model on the meta device).

    Raises InputError, which names the tensor, the file or the setting, if something does not fit.
    """
    path, tensors = file.path, tensors_of(file)
    system = system_of(path, tensors)
    features = _features(system, options)
    vocabulary = _vocabulary(path, system, options)
    order = system.order(options.vocabulary, vocabulary)
    match = checked(path, system, tensors, len(vocabulary))
    shape = _shape(path, match.sizes, features, options)
    data = DataSizes(shape[0], shape[1:], len(vocabulary), match.sizes.get("L", vocabulary.longest))
    recipe, model = _bare(path, system, match.sizes, data, features, options)
    parameters = tensor_table.converted(match, order)
    weights = {name: parameters[system.alias(name)] for name in model.state_dict()}
    _check_shapes(path, system, match, weights, model)
    words: dict[Part, str] = {"words": words_identity(vocabulary)}
    # a checkpoint does not contain the iteration and the validation score
    trained = Trained(recipe, options.seed, shape, data.vocabulary, data.longest, 0, math.nan, words)
    return trained, weights, model


def checked(path: Path, system: System, tensors: Mapping[str, Tensor], words: int) -> Match:
    """Check a file's tensors against the system's table. Return the sizes, rows and tensors, as a Match.

    `words` is the size of the vocabulary. Raises InputError, which names the tensor, if a tensor does not
    fit, if position encodings differ from ours, or if copies of a shared tensor differ.
    """
    match = tensor_table.read(path, system.table, tensors, {"V": words}, system.remedy)
    for row in match.rows:
        tensor, other = match.tensors.get(row.stored), row.how.removeprefix("=")
        if row.how == "sinusoids" and tensor is not None:
            saved = tensor.reshape(-1, tensor.shape[-1])
            # the tolerance is for files with 16-bit numbers
            if not torch.allclose(saved, system.waves(*saved.shape), atol=1e-3):
                raise InputError(f"{path}: {row.stored} is not the sinusoids that the model adds to words")
        if other in match.tensors and not torch.equal(match.tensors[row.stored], match.tensors[other]):
            raise InputError(f"{path}: {row.stored} is not equal to {other}, but the model shares them")
    return match


def _features(system: System, options: Options) -> Spec | PixelSpec:
    everything = params.load()
    dataset = everything.of(options.dataset)
    if system.features is None:
        return pixel_spec(everything.features, dataset)
    features = spec(everything.features, dataset)
    check_features(features, system)
    return features


def check_features(features: Spec, system: System) -> None:
    """Raise InputError if params.yaml has other image features than those of the authors' program.

    `features` are those of params.yaml, and `system` describes the program. The keys `system.unknown`
    may have any value. Features imported from .npy files may have any weights and any resizing.
    """
    for key, value in asdict(features).items():
        expected = getattr(system.features, key)
        any_value = key in system.unknown or (key in ("weights", "resize") and value == IMPORTED)
        if value != expected and not any_value:
            raise InputError(
                f"params.yaml: features.{key} is {value!r}, the checkpoint was trained with {expected!r}; "
                f"set it, or the dataset's features.npy"
            )


def _vocabulary(path: Path, system: System, options: Options) -> Vocabulary:
    if system.features is not None:
        words = vocabularies.fixed(options.vocabulary, [], lower_case=False)
        return replace(words, longest=options.longest or system.longest)
    vocabulary = vocabularies.load(options.vocabulary)
    if not isinstance(vocabulary, ClipVocabulary):
        raise InputError(f"{path} needs CLIP's tokens; make the vocabulary with text.tokeniser: clip_bpe")
    return vocabulary


def _shape(path: Path, sizes: Sizes, features: Spec | PixelSpec, options: Options) -> tuple[int, int, int]:
    """Return (C, H, W), the shape of the model's input for an image.

    Raises InputError if a model that reads pixels needs another image size than `features` gives.
    """
    if isinstance(features, Spec):
        side = features.size // features.stride
        return CHANNELS[features.stride], side, side
    side = clip.side(path, sizes)
    if (side, side) != (features.height, features.width):
        raise InputError(
            f"{path}: its model reads {side} x {side} pixels, but {options.dataset} has "
            f"{features.height} x {features.width}; correct features.pixels in params.yaml"
        )
    return 3, side, side


def _bare(
    path: Path,
    system: System,
    table_sizes: Sizes,
    data: DataSizes,
    features: Spec | PixelSpec,
    options: Options,
) -> tuple[Recipe, Trainable]:
    """Return a recipe and a model for the checkpoint, as (recipe, model).

    The recipe has a phase without settings, and no weights of loss terms. The model is on the device "meta".
    `table_sizes`: letter in the system's table -> size, from the shapes of the checkpoint's tensors.
    `data`: sizes of the features and the captions.
    """
    settings = {"variant": "released", "switches": system.switches(table_sizes), **system.settings}
    sizes_class = models.entry_of(system.model).sizes
    all_sizes = system.our_sizes(path, table_sizes, options.intra)
    all_sizes |= {"heads": options.heads or system.heads, "pool": 1} if system.features else {}
    names = [field.name for field in fields(sizes_class) if field.name not in DATA]
    sizes: dict[str, Any] = {name: all_sizes[name] for name in names}
    try:
        model_sizes = sizes_class(*astuple(data), **sizes)
        code = resolving.code_of(system.model)
        phases: dict[str, dict[str, Any]] = {system.phase or TRAIN: {}}
        recipe = Recipe(options.dataset, system.model, settings, sizes, {}, phases, asdict(features), code)
    except ValueError as error:
        raise InputError(f"{path}: {error}{'; correct --heads' if system.features else ''}") from None
    with shapes_only():
        model: Trainable = recipe_file.build(recipe, model_sizes)
    return recipe, model


def _check_shapes(
    path: Path, system: System, match: Match, weights: Mapping[str, Tensor], model: Trainable
) -> None:
    for name, parameter in model.state_dict().items():
        if (shape := tuple(weights[name].shape)) != tuple(parameter.shape):
            stored = next(row.stored for row in match.rows if row.parameter == system.alias(name))
            raise InputError(
                f"{path}: {stored} gives {shape}, where the model has {tuple(parameter.shape)}; "
                f"{system.remedy}, or set features.size"
            )
