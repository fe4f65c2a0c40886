"""SCORER's released checkpoints -> our model `scorer` in its released variant (methods.md section 8).

Such a file holds change_detector_state and speaker_state, tensors by name, and model_cfg, an object of
a class of theirs, which is left alone. Backward reasoning's weights are not in it.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from models.backbone import CHANNELS, STRIDE
from models.captioner import Captioner, Sizes
from models.decoder import sinusoids
from pipeline import recipes, resolving
from pipeline.errors import InputError
from pipeline.recipes import Recipe
from pipeline.spec import IMPORTED, Spec
from pipeline.text import Vocabulary
from pipeline.torch_files import TorchFile
from pipeline.torch_pickles import View
from pipeline.weights import Trained

MODEL = "scorer"
# dropout and temperature do not count in what is imported: the one is off, the other one learned
SETTINGS = {"variant": "released", "switches": {}, "dropout": 0.1, "temperature": 0.5}
FEATURES = Spec(weights="imagenet", layer="layer3", resize="opencv_bicubic", size=224)
SHAPE = (CHANNELS[FEATURES.layer], *[FEATURES.size // STRIDE[FEATURES.layer]] * 2)  # C, H, W
COORDINATES = 2  # channels beside the features'
STATES = ("change_detector_state", "speaker_state")
DETECTOR, SPEAKER = (f"{state}." for state in STATES)
POSITIONS = f"{SPEAKER}core.position_enc.pe"
EMBEDDING = f"{SPEAKER}core.embed.weight"
# their modules by ours; {0} is a layer's number
NAMES = {
    r"encoding\.project": "change_detector_state.img.0",
    r"encoding\.column": "change_detector_state.w_embedding",
    r"encoding\.row": "change_detector_state.h_embedding",
    r"difference\.attentions\.(\d+)": "change_detector_state.scorer.{0}.attention",
    r"difference\.norms\.(\d+)": "change_detector_state.scorer.{0}.attention.layer_norm",
    r"difference\.fuse": "change_detector_state.embed_fc.0",
    r"decoder\.embedding": "speaker_state.core.embed",
    r"decoder\.project": "speaker_state.core.fc.0",
    r"decoder\.norm": "speaker_state.core.fc.2",
    r"decoder\.layers\.(\d+)\.self_attention": "speaker_state.core.layer.{0}.self_attention",
    r"decoder\.layers\.(\d+)\.norms\.0": "speaker_state.core.layer.{0}.norm1",
    r"decoder\.layers\.(\d+)\.cross_attention": "speaker_state.core.layer.{0}.dec_enc_attention",
    r"decoder\.layers\.(\d+)\.norms\.1": "speaker_state.core.layer.{0}.norm2",
    r"decoder\.layers\.(\d+)\.feed_forward\.0": "speaker_state.core.layer.{0}.hidden_intermediate.dense",
    r"decoder\.layers\.(\d+)\.feed_forward\.2": "speaker_state.core.layer.{0}.output.dense",
    r"decoder\.layers\.(\d+)\.norms\.2": "speaker_state.core.layer.{0}.output.LayerNorm",
    r"decoder\.vocabulary": "speaker_state.logit",
}


def theirs(name: str, layers: int) -> str:
    """The released name of a parameter of ours; `layers` of reconstruction."""
    if name == "regularisers.cv.contrast.s":
        return scale(layers - 1)  # the contrast reads the last layer
    for ours, released in NAMES.items():
        if match := re.match(rf"{ours}\.", name):
            return f"{released.format(*match.groups())}.{name[match.end() :]}"
    raise KeyError(name)


def scale(layer: int) -> str:
    """The released name of a layer's learned temperature; all layers have one, the last one's is used."""
    return f"{DETECTOR}scorer.{layer}.attention.logit_scale"


def wanted(model: Captioner) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all tensors of a checkpoint of this model, theirs."""
    sizes = model.sizes
    shapes = {theirs(name, sizes.layers): tuple(t.shape) for name, t in model.state_dict().items()}
    unused = {scale(layer): () for layer in range(sizes.layers)}
    return unused | shapes | {POSITIONS: (sizes.longest, sizes.word_width)}


def views(file: TorchFile) -> dict[str, View]:
    """The checkpoint's tensors by name, the state's name first. Raises InputError where it has none."""
    found = {}
    for state in STATES:
        tensors = file.tree.get(state) if isinstance(file.tree, dict) else None
        if not isinstance(tensors, dict) or not all(isinstance(t, View) for t in tensors.values()):
            raise InputError(
                f"{file.path} has no tensors under {state!r}; name a released checkpoint of SCORER"
            )
        found |= {f"{state}.{name}": tensor for name, tensor in tensors.items()}
    return found


def sizes_of(path: Path, found: dict[str, View], heads: int) -> Sizes:
    """The model's sizes, from the tensors' shapes; `heads` stands in none of them."""

    def shape(name: str, dimensions: int) -> tuple[int, ...]:
        if name not in found:
            raise InputError(f"{path}: {name} is missing; name a released checkpoint of SCORER")
        if len(size := found[name].size) != dimensions:
            raise InputError(f"{path}: {name} is {size}, and has not {dimensions} dimensions")
        return size

    width, channels, _, _ = shape(f"{DETECTOR}img.0.weight", 4)
    if heads < 1 or width % heads:
        raise InputError(f"{path}: its width, {width}, is not a multiple of {heads} heads; mend --heads")
    vocabulary, word_width = shape(EMBEDDING, 2)
    return Sizes(
        channels - COORDINATES,
        (shape(f"{DETECTOR}h_embedding.weight", 2)[0], shape(f"{DETECTOR}w_embedding.weight", 2)[0]),
        vocabulary,
        shape(POSITIONS, 2)[0],
        width,
        heads,
        _layers(found, rf"{DETECTOR}scorer\.(\w+)\."),
        _layers(found, rf"{SPEAKER}core\.layer\.(\w+)\."),
        word_width,
    )


def _layers(names: Iterable[str], pattern: str) -> int:
    """How many layers the names speak of; at least one, whose absence is told by name."""
    return max(1, len({match[1] for name in names if (match := re.match(pattern, name))}))


def check(path: Path, found: dict[str, View], expected: dict[str, tuple[int, ...]]) -> None:
    """Raises InputError naming the first tensor that is missing, of another shape, or not the model's."""
    for name, shape in expected.items():
        if name not in found:
            raise InputError(f"{path}: {name} is missing; name a released checkpoint of SCORER")
        if found[name].size != shape:
            raise InputError(f"{path}: {name} is {found[name].size}, where the model has {shape}")
    if surplus := next((name for name in found if name not in expected), None):
        raise InputError(f"{path}: {surplus} is no tensor of SCORER; name a released checkpoint of SCORER")


def check_features(wanted: Spec) -> None:
    """Raises InputError where the features of params.yaml are not those that the released programs made."""
    for key, value in asdict(FEATURES).items():
        found = getattr(wanted, key)
        # features that their extractor made, and we imported, are what they are
        if found != value and not (key in ("weights", "resize") and found == IMPORTED):
            raise InputError(
                f"params.yaml: features.{key} is {found!r}, the checkpoint was trained with {value!r}; "
                f"set it, or the dataset's features.npy"
            )


def imported(
    file: TorchFile, vocabulary: Vocabulary, dataset: str, features: Spec, heads: int, seed: int
) -> tuple[Trained, dict[str, Tensor]]:
    """The checkpoint as our weights, to run on those `features`, and what is known of them.

    `seed` is the cell's that it shall stand in. Its iteration is not in the file: 0, its validation
    NaN. Raises InputError naming the tensor or the file that does not fit.
    """
    found = views(file)
    sizes = sizes_of(file.path, found, heads)
    recipe = _recipe(dataset, features, sizes)
    with torch.device("meta"):  # names and shapes only
        model = recipes.build(recipe, sizes)
    expected = wanted(model)
    check(file.path, found, expected)
    _check_surroundings(file, sizes, vocabulary)
    tensors = {name: _finite(file, name, view) for name, view in found.items()}
    # we compute the positions, which theirs saves
    if not torch.allclose(tensors[POSITIONS], sinusoids(sizes.longest, sizes.word_width), atol=1e-4):
        raise InputError(f"{file.path}: {POSITIONS} is not the sinusoids that the model adds to words")
    weights = {name: tensors[theirs(name, sizes.layers)] for name in model.state_dict()}
    trained = Trained(recipe, seed, SHAPE, len(vocabulary), sizes.longest, 0, math.nan)
    return trained, weights


def _check_surroundings(file: TorchFile, sizes: Sizes, vocabulary: Vocabulary) -> None:
    """The features that the model reads, and the words that it writes."""
    if (shape := (sizes.channels, *sizes.grid)) != SHAPE:
        raise InputError(
            f"{file.path}: its model reads features of {shape} with {COORDINATES} coordinates more, "
            f"but {FEATURES.layer} at {FEATURES.size} pixels gives {SHAPE}"
        )
    if sizes.vocabulary != len(vocabulary):
        raise InputError(
            f"{file.path}: {EMBEDDING} is of {sizes.vocabulary} words, the vocabulary of {len(vocabulary)}; "
            f"give the one that it was trained with"
        )


def _finite(file: TorchFile, name: str, view: View) -> Tensor:
    if not (tensor := file.floats(name, view)).isfinite().all():
        raise InputError(f"{file.path}: {name} has a number that is not finite; download the file again")
    return tensor


def _recipe(dataset: str, features: Spec, sizes: Sizes) -> Recipe:
    """How the model is built. How it was trained is not in the file: no loss and no training."""
    widths = {
        key: getattr(sizes, key) for key in ("width", "heads", "layers", "decoder_layers", "word_width")
    }
    return Recipe(dataset, MODEL, SETTINGS, widths, {}, {}, asdict(features), resolving.code_of(MODEL))
