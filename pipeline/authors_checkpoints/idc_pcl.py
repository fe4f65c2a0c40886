"""Released checkpoints of IDC-PCL, of either phase -> our model `idc_pcl` in its released variant.

A pre-trained one is a dictionary whose model_state_dict holds the tensors, a fine-tuned one holds them
itself. Names and shapes: docs/methods.md, "Released checkpoints". The word table and the output layer have a
row a word of their vocabulary, marks included; ours are in our order.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from models.backbones.resnet101 import CHANNELS
from models.idc_pcl.network import PclSizes, positions
from models.idc_pcl.switches import RELEASED
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile
from pipeline.authors_checkpoints.expectations import check_features, check_finite, check_tensors
from pipeline.errors import InputError
from pipeline.features.store_contents import IMPORTED, Spec
from pipeline.inputs import read_json
from pipeline.recipes import recipe_file, resolving
from pipeline.recipes.recipe_file import Recipe
from pipeline.recipes.trained_model import Trained
from pipeline.vocabularies import WordVocabulary

TITLE, MODEL, STATE = "IDC-PCL", "idc_pcl", "model_state_dict"
REMEDY = f"name a released checkpoint of {TITLE}, with its vocabulary"
FEATURES = Spec("resnet101", "imagenet", stride=32, finer=False, standardise=False, resize=IMPORTED, size=224)
SIDE = FEATURES.size // FEATURES.stride
SHAPE = CHANNELS[FEATURES.stride], SIDE, SIDE
# of the model, as the program has them: nothing of it stands in a checkpoint
SETTINGS = {"dropout": 0.2, "masked_words": 0.15, "masked_words_captioning": 0.15, "masked_cells": 0.15}
SETTINGS |= {"tau1": 1.0, "tau2": 1.0}
WORDS, PROJECT, TIED = "word_embedding.weight", "img_project.0.weight", "feat_regress.weight"
POSITIONS, LONGEST = "position_encoding.pe", 200
TRANSFORMERS = {"single": "single_img_encoder", "pair": "double_img_encoder", "cross": "encoder"}
MODULES = {
    r"project": "img_project.0",
    r"words": "word_embedding",
    r"types": "position_encoding.type_pe",
    r"norm": "position_encoding.layernorm",
    r"output": "output_layer",
    r"(\w+)\.norm": "{0}.norm",
    r"(\w+)\.blocks\.(\d+)\.norm_1": "{0}.layers.{1}.sublayer.0.norm",
    r"(\w+)\.blocks\.(\d+)\.norm_2": "{0}.layers.{1}.sublayer.1.norm",
    r"(\w+)\.blocks\.(\d+)\.attention\.query": "{0}.layers.{1}.attn.q_linear",
    r"(\w+)\.blocks\.(\d+)\.attention\.key": "{0}.layers.{1}.attn.k_linear",
    r"(\w+)\.blocks\.(\d+)\.attention\.value": "{0}.layers.{1}.attn.v_linear",
    r"(\w+)\.blocks\.(\d+)\.attention\.output": "{0}.layers.{1}.attn.out",
    r"(\w+)\.blocks\.(\d+)\.feed_forward\.0": "{0}.layers.{1}.feed_forward.w_1",
    r"(\w+)\.blocks\.(\d+)\.feed_forward\.3": "{0}.layers.{1}.feed_forward.w_2",
}
HEADS = {"cell_head.map": "feat_regress.net.0", "cell_head.norm": "feat_regress.net.2", "judge": "pooler.0"}
NORMS = {"weight": "a_2", "bias": "b_2"}
UNUSED = re.compile(r"(pooler|classifier|aligner)\.0\.(weight|bias)")  # of the pre-trained ones


def recognised(file: CheckpointFile) -> bool:
    """Whether the file is one of this system's."""
    return WORDS in _state(file)


def _state(file: CheckpointFile) -> Mapping[str, Any]:
    tree = file.tree if isinstance(file.tree, dict) else {}
    inner = tree.get(STATE)
    return inner if isinstance(inner, dict) else tree


def place(name: str) -> str:
    """Where our parameter of that name stands. Raises KeyError where nowhere."""
    module, _, kind = name.rpartition(".")
    if name == "cell_head.bias":
        return "feat_regress.bias"
    theirs = HEADS.get(module)
    if theirs is None:
        inner = module.removeprefix("difference.")
        for ours, pattern in MODULES.items():
            if match := re.fullmatch(ours, inner):
                groups = [TRANSFORMERS.get(each, each) for each in match.groups()]
                theirs = pattern.format(*groups)
                break
    if theirs is None:
        raise KeyError(name)
    return f"{theirs}.{NORMS[kind] if 'norm' in module else kind}"


def imported(
    file: CheckpointFile,
    path: Path,
    vocabulary: WordVocabulary,
    dataset: str,
    features: Spec,
    heads: int,
    seed: int,
) -> tuple[Trained, dict[str, Tensor]]:
    """The checkpoint as our weights, of the phase that it is of, and what is known of them.

    `path` is its vocabulary's file, `vocabulary` the same in our order. Raises InputError naming the tensor
    or the file that does not fit.
    """
    check_features(features, FEATURES, ("backbone", "weights", "stride", "finer", "standardise", "size"))
    found = {name: tensor for name, tensor in _state(file).items() if isinstance(tensor, Tensor)}
    sizes = sizes_of(file.path, found, heads, vocabulary)
    judged = tuple(getattr(found.get("pooler.0.weight"), "shape", ())) == (2, 2 * sizes.width)
    switches = {} if judged or TIED in found else {"distractor_judging": False}
    recipe = _recipe(dataset, features, sizes, SETTINGS | {"variant": "released", "switches": switches})
    with torch.device("meta"):  # names and shapes only
        first = TIED in found
        model: nn.Module = recipe_file.build(recipe, sizes, phase="pretrain" if first else None)
    ids = read_json(path, "name a JSON file of word -> id")
    rows = _rows(path, ids, vocabulary)
    used = {name: tensor for name, tensor in found.items() if not (first and UNUSED.fullmatch(name))}
    check_tensors(file.path, used, _wanted(model, first), TITLE, REMEDY)
    tensors = {name: file.floats(name, tensor) for name, tensor in found.items()}
    check_finite(file.path, tensors)
    _check_computed(file.path, tensors, sizes)
    weights = {name: tensors[place(name)] for name in model.state_dict()}
    for name in ("difference.words.weight", "difference.output.weight", "difference.output.bias"):
        weights[name] = weights[name][rows].clone()
    return Trained(recipe, seed, SHAPE, len(vocabulary), sizes.longest, 0, math.nan), weights


def _rows(path: Path, ids: Mapping[str, int], vocabulary: WordVocabulary) -> list[int]:
    """Their row of each of our words, then of [MASK] and [CLS], which are no words here."""
    theirs = ["<PAD>", "<UNK>", "<BOS>", "<EOS>", *vocabulary.words[4:], "<MASK>", "<CLS>"]
    if lacking := [word for word in theirs if word not in ids]:
        raise InputError(f"{path} lacks {lacking[0]}; name the vocabulary of the checkpoint of {TITLE}")
    if sorted(rows := [ids[word] for word in theirs]) != list(range(len(ids))):
        raise InputError(f"{path}: ids must run from 0 without gaps; name the checkpoint's own vocabulary")
    return rows


def sizes_of(path: Path, found: Mapping[str, Tensor], heads: int, vocabulary: WordVocabulary) -> PclSizes:
    """The model's sizes, from the tensors' shapes; heads and the longest caption stand in none of them."""
    if (project := found.get(PROJECT)) is None or project.dim() != 2:
        raise InputError(f"{path}: {PROJECT} is missing, or no matrix; name a released checkpoint of {TITLE}")
    width, channels = project.shape
    if channels != SHAPE[0]:
        raise InputError(
            f"{path}: {PROJECT} reads {channels} channels; stride {FEATURES.stride} has {SHAPE[0]}"
        )
    single, pair, cross = (blocks_of(found, theirs) for theirs in TRANSFORMERS.values())
    try:
        data = channels, SHAPE[1:], len(vocabulary), vocabulary.longest
        return PclSizes(*data, width, heads, single, pair, cross, pool=1)
    except (ValueError, ZeroDivisionError):
        raise InputError(
            f"{path}: its width, {width}, is not a multiple of {heads} heads; mend --heads"
        ) from None


def blocks_of(names: Iterable[str], transformer: str) -> int:
    """How many blocks of a transformer the names speak of; at least one, whose absence is told by name."""
    pattern = re.compile(rf"{transformer}\.layers\.(\w+)\.")
    return max(1, len({match[1] for name in names if (match := pattern.match(name))}))


def _recipe(dataset: str, features: Spec, sizes: PclSizes, own: dict[str, Any]) -> Recipe:
    widths = {key: getattr(sizes, key) for key in ("width", "heads", "single", "pair", "cross", "pool")}
    return Recipe(dataset, MODEL, own, widths, {}, {}, asdict(features), resolving.code_of(MODEL))


def _wanted(model: nn.Module, first: bool) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all tensors of a checkpoint of this model, theirs."""
    shapes = {place(name): tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    tied = {TIED: shapes[PROJECT]} if first else {}
    return shapes | {POSITIONS: (1, LONGEST, shapes[PROJECT][0])} | tied


def _check_computed(path: Path, tensors: Mapping[str, Tensor], sizes: PclSizes) -> None:
    """What a checkpoint holds beside our weights: the table of positions, and W a second time."""
    if not torch.allclose(tensors[POSITIONS][0], positions(LONGEST, sizes.width, RELEASED), atol=1e-3):
        raise InputError(f"{path}: {POSITIONS} is not the sinusoids that the model adds to tokens")
    if TIED in tensors and not torch.equal(tensors[TIED], tensors[PROJECT]):
        raise InputError(f"{path}: {TIED} is not {PROJECT}, with which the model shares it")
