"""Convert a released checkpoint of any system to weights of our model, in the model's variant `released`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import models
from models.backbones.resnet101 import CHANNELS
from models.common.grid_embedding import DataSizes
from models.common.trainable import Trainable
from pipeline.authors_checkpoints import clip, clip4idc, idc_pcl, mccformers, tensor_table
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile, tensors_of
from pipeline.authors_checkpoints.duda_vard import DUDA, VARD
from pipeline.authors_checkpoints.scorer_dirl_card import CARD, DIRL, SCORER
from pipeline.authors_checkpoints.system import System, check_features
from pipeline.authors_checkpoints.tensor_table import Wanted
from pipeline.config import params, recipe_file, resolving
from pipeline.config.recipe_file import Recipe
from pipeline.config.store_contents import PixelSpec, Spec, pixel_spec, spec
from pipeline.io.errors import InputError
from pipeline.text import vocabularies
from pipeline.text.vocabularies import ClipVocabulary, Vocabulary, words_identity
from pipeline.weights.model_description import Part, Trained

# a file belongs to the first system whose `marks`, patterns of tensor names, all match
SYSTEMS: tuple[System, ...] = (clip4idc.CAPTIONING, clip4idc.ADAPTATION, VARD, DUDA, CARD, SCORER, DIRL)
SYSTEMS += (idc_pcl.PRETRAINED, idc_pcl.JUDGING, idc_pcl.CAPTIONING, mccformers.S, mccformers.D)
TITLES = ", ".join(dict.fromkeys(system.title for system in SYSTEMS))
DATA = tuple(each.name for each in fields(DataSizes))


@dataclass(frozen=True)
class Options:
    """Properties of a checkpoint that its file does not contain.

    None means the value in the authors' program.
    """

    vocabulary: Path
    dataset: str
    seed: int
    heads: int | None = None
    longest: int | None = None
    intra: int = 9


def system_of(path: Path, found: Mapping[str, Tensor]) -> System:
    """Return the system to which a file with these tensors belongs. Raises InputError if no system fits."""
    for system in SYSTEMS:
        if system.is_of(found):
            return system
    raise InputError(f"{path} has no tensors of {TITLES}; name a released checkpoint of one of them")


def imported(file: CheckpointFile, options: Options) -> tuple[Trained, dict[str, Tensor], Trainable]:
    """Convert a checkpoint.

    Return a description of the weights, the weights, and our model on the meta device. Raises InputError if
    something does not fit. The message names the tensor, the file or the setting.
    """
    path, found = file.path, tensors_of(file)
    system = system_of(path, found)
    features = _features(system, options)
    vocabulary = _vocabulary(path, system, options)
    order = system.order(system, options.vocabulary, vocabulary) if system.order else None
    sizes, rows, tensors = checked(path, system, found, len(vocabulary))
    shape = _shape(path, system, sizes, features, options)
    data = DataSizes(shape[0], shape[1:], len(vocabulary), sizes.get("L", vocabulary.longest))
    recipe, model = _bare(path, system, sizes, data, features, options)
    made = tensor_table.taken(rows, tensors, order, shape[1])
    weights = {name: made[system.alias(name)] for name in model.state_dict()}
    _check_shapes(path, system, rows, weights, model)
    words: dict[Part, str] = {"words": words_identity(vocabulary)}
    # a checkpoint does not contain the iteration and the validation score
    trained = Trained(recipe, options.seed, shape, data.vocabulary, data.longest, 0, math.nan, words)
    return trained, weights, model


def checked(
    path: Path, system: System, found: Mapping[str, Tensor], words: int
) -> tuple[dict[str, int], list[Wanted], dict[str, Tensor]]:
    """Check a file's tensors against the system's table. Return sizes, rows of the table, and tensors.

    `words`: size of the vocabulary. Raises InputError if a tensor does not fit. The message names the tensor.
    """
    sizes = tensor_table.sizes_of(path, system.table, found, {"V": words}, system.remedy)
    rows = tensor_table.wanted(system.table, sizes)
    tensors = tensor_table.checked(path, found, rows, system.title, system.remedy)
    _check_computed(path, system, rows, tensors)
    return sizes, rows, tensors


def _features(system: System, options: Options) -> Spec | PixelSpec:
    """Return the specification of the dataset's features, or of its pixels, from params.yaml."""
    everything = params.load()
    dataset = everything.of(options.dataset)
    if system.features is None:
        return pixel_spec(everything.features, dataset)
    features = spec(everything.features, dataset)
    check_features(features, system)
    return features


def _vocabulary(path: Path, system: System, options: Options) -> Vocabulary:
    if system.features is not None:
        words = vocabularies.fixed(options.vocabulary, [], lower_case=False)
        return replace(words, longest=options.longest or system.longest)
    vocabulary = vocabularies.load(options.vocabulary)
    if not isinstance(vocabulary, ClipVocabulary):
        raise InputError(f"{path} needs CLIP's tokens; make the vocabulary with text.tokeniser: clip_bpe")
    return vocabulary


def _shape(
    path: Path, system: System, sizes: Mapping[str, int], features: Spec | PixelSpec, options: Options
) -> tuple[int, int, int]:
    """Return (C, H, W), the shape of the model's input for an image."""
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
    sizes: Mapping[str, int],
    data: DataSizes,
    features: Spec | PixelSpec,
    options: Options,
) -> tuple[Recipe, Trainable]:
    """Return a recipe that has no settings of loss and training, and the model on the meta device."""
    settings = {"variant": "released", "switches": system.switches(sizes), **system.settings}
    kind = models.entry_of(system.model).sizes
    known = system.own(path, sizes, options.intra)
    known |= {"heads": options.heads or system.heads, "pool": 1} if system.features else {}
    own: dict[str, Any] = {each.name: known[each.name] for each in fields(kind) if each.name not in DATA}
    try:
        made = kind(*astuple(data), **own)
        code = resolving.code_of(system.model)
        recipe = Recipe(options.dataset, system.model, settings, own, {}, {}, asdict(features), code)
    except ValueError as error:
        raise InputError(f"{path}: {error}{'; correct --heads' if system.features else ''}") from None
    with torch.device("meta"):
        model: Trainable = recipe_file.build(recipe, made, phase=system.phase)
    return recipe, model


def _check_computed(
    path: Path, system: System, rows: Sequence[Wanted], tensors: Mapping[str, Tensor]
) -> None:
    """Raise InputError if position encodings differ from ours, or if copies of a shared tensor differ."""
    for row in rows:
        tensor, other = tensors.get(row.theirs), row.how.removeprefix("=")
        if row.how == "sinusoids" and tensor is not None:
            saved = tensor.reshape(-1, tensor.shape[-1])
            # the tolerance is for files with 16-bit numbers
            if not torch.allclose(saved, system.waves(*saved.shape), atol=1e-3):
                raise InputError(f"{path}: {row.theirs} is not the sinusoids that the model adds to words")
        if other in tensors and not torch.equal(tensors[row.theirs], tensors[other]):
            raise InputError(f"{path}: {row.theirs} is not equal to {other}, but the model shares them")


def _check_shapes(
    path: Path, system: System, rows: Sequence[Wanted], weights: Mapping[str, Tensor], model: Trainable
) -> None:
    """Raise InputError if a converted tensor and the model's parameter differ in shape."""
    for name, parameter in model.state_dict().items():
        if (size := tuple(weights[name].shape)) != tuple(parameter.shape):
            source = next(row.theirs for row in rows if row.ours == system.alias(name))
            raise InputError(
                f"{path}: {source} gives {size}, where the model has {tuple(parameter.shape)}; "
                f"{system.remedy}, or set features.size"
            )
