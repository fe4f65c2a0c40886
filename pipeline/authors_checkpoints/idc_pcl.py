"""Released checkpoints of IDC-PCL, of either phase -> our model `idc_pcl` in its released variant.

A pre-trained one is a dictionary whose model_state_dict holds the tensors, a fine-tuned one holds them
itself. Names and shapes: docs/methods.md, "Released checkpoints". The word table and the output layer have a
row a word of their vocabulary, marks included; ours are in our order.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.backbones.resnet101 import CHANNELS
from models.common.trainable import Trainable
from models.idc_pcl.network import PclSizes, positions
from models.idc_pcl.switches import RELEASED
from pipeline.authors_checkpoints import tensor_names
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile
from pipeline.authors_checkpoints.tensor_names import Names, Shapes, checked, shapes_of, theirs
from pipeline.config.store_contents import IMPORTED, Spec
from pipeline.io.errors import InputError
from pipeline.text.vocabularies import WordVocabulary
from pipeline.weights.model_description import Trained

TITLE, MODEL, STATE = "IDC-PCL", "idc_pcl", "model_state_dict"
REMEDY = f"name a released checkpoint of {TITLE}, with its vocabulary"
FEATURES = Spec("resnet101", "imagenet", stride=32, finer=False, standardise=False, resize=IMPORTED, size=224)
KEYS = ("backbone", "weights", "stride", "finer", "standardise", "size")
SIDE = FEATURES.size // FEATURES.stride
SHAPE = CHANNELS[FEATURES.stride], SIDE, SIDE
# of the model, as the program has them: nothing of it stands in a checkpoint
SETTINGS = {"dropout": 0.2, "masked_words": 0.15, "masked_words_captioning": 0.15, "masked_cells": 0.15}
SETTINGS |= {"coef_lr": 1.0, "tau1": 1.0, "tau2": 1.0}
WORDS, PROJECT, TIED = "word_embedding.weight", "img_project.0.weight", "feat_regress.weight"
POSITIONS, LONGEST = "position_encoding.pe", 200
TRANSFORMERS = {"single": "single_img_encoder", "pair": "double_img_encoder", "cross": "encoder"}


def _norm(ours: str, its: str) -> dict[str, str]:
    return {rf"{ours}\.weight": f"{its}.a_2", rf"{ours}\.bias": f"{its}.b_2"}


def _transformer(ours: str, its: str) -> dict[str, str]:
    block, layer = rf"difference\.{ours}\.blocks\.(\d+)\.", f"{its}.layers.{{0}}."
    parts = {"query": "q_linear", "key": "k_linear", "value": "v_linear", "output": "out"}
    return {
        **_norm(rf"difference\.{ours}\.norm", f"{its}.norm"),
        **_norm(f"{block}norm_1", f"{layer}sublayer.0.norm"),
        **_norm(f"{block}norm_2", f"{layer}sublayer.1.norm"),
        **{rf"{block}attention\.{part}": f"{layer}attn.{name}" for part, name in parts.items()},
        rf"{block}feed_forward\.0": f"{layer}feed_forward.w_1",
        rf"{block}feed_forward\.3": f"{layer}feed_forward.w_2",
    }


NAMES = Names(
    {
        r"difference\.project": "img_project.0",
        r"difference\.words": "word_embedding",
        r"difference\.types": "position_encoding.type_pe",
        r"difference\.output": "output_layer",
        **_norm(r"difference\.norm", "position_encoding.layernorm"),
        r"cell_head\.bias": "feat_regress.bias",
        r"cell_head\.map": "feat_regress.net.0",
        **_norm(r"cell_head\.norm", "feat_regress.net.2"),
        r"judge": "pooler.0",
        **_transformer("single", TRANSFORMERS["single"]),
        **_transformer("pair", TRANSFORMERS["pair"]),
        **_transformer("cross", TRANSFORMERS["cross"]),
    }
)
UNUSED = re.compile(r"(pooler|classifier|aligner)\.0\.(weight|bias)")  # of the pre-trained ones


def is_one(file: CheckpointFile) -> bool:
    """Whether the file is one of this system's."""
    return WORDS in _state(file)


def _state(file: CheckpointFile) -> Mapping[str, Any]:
    tree = file.tree if isinstance(file.tree, dict) else {}
    inner = tree.get(STATE)
    return inner if isinstance(inner, dict) else tree


def imported(
    file: CheckpointFile,
    path: Path,
    vocabulary: WordVocabulary,
    dataset: str,
    features: Spec,
    heads: int,
    seed: int,
) -> tuple[Trained, dict[str, Tensor], Trainable]:
    """The checkpoint as our weights, of the phase that it is of, and what is known of them.

    `path` is its vocabulary's file, `vocabulary` the same in our order. Raises InputError naming the tensor
    or the file that does not fit.
    """
    tensor_names.check_features(features, FEATURES, KEYS)
    found = {name: tensor for name, tensor in _state(file).items() if isinstance(tensor, Tensor)}
    sizes = sizes_of(file.path, found, heads, vocabulary)
    judged = tuple(getattr(found.get("pooler.0.weight"), "shape", ())) == (2, 2 * sizes.width)
    switches = {} if judged or TIED in found else {"distractor_judging": False}
    settings = SETTINGS | {"variant": "released", "switches": switches}
    first = TIED in found
    recipe, model = tensor_names.bare(dataset, MODEL, settings, sizes, features, first)
    ours = shapes_of(model)
    # [MASK] and [CLS] are no words here
    words = ("<PAD>", "<UNK>", "<BOS>", "<EOS>", *vocabulary.words[4:], "<MASK>", "<CLS>")
    rows = tensor_names.rows_of(path, words, TITLE)
    unused = {name: tuple(t.shape) for name, t in found.items() if first and UNUSED.fullmatch(name)}
    tensors = checked(file.path, found, unused | _wanted(ours, first), TITLE, REMEDY)
    _check_computed(file.path, tensors, sizes)
    weights = {name: NAMES.place(name).of(tensors) for name in ours}
    for name in ("difference.words.weight", "difference.output.weight", "difference.output.bias"):
        weights[name] = weights[name][rows].clone()
    return tensor_names.trained(recipe, seed, SHAPE, vocabulary, sizes.longest), weights, model


def sizes_of(path: Path, found: Mapping[str, Tensor], heads: int, vocabulary: WordVocabulary) -> PclSizes:
    """The model's sizes, from the tensors' shapes; heads and the longest caption stand in none of them."""
    if (project := found.get(PROJECT)) is None or project.dim() != 2:
        raise InputError(f"{path}: {PROJECT} is missing, or no matrix; name a released checkpoint of {TITLE}")
    width, channels = project.shape
    if channels != SHAPE[0]:
        raise InputError(
            f"{path}: {PROJECT} reads {channels} channels; stride {FEATURES.stride} has {SHAPE[0]}"
        )
    single, pair, cross = (
        tensor_names.layers(found, rf"{transformer}\.layers\.(\w+)\.")
        for transformer in TRANSFORMERS.values()
    )
    try:
        data = channels, SHAPE[1:], len(vocabulary), vocabulary.longest
        return PclSizes(*data, width, heads, single, pair, cross, pool=1)
    except (ValueError, ZeroDivisionError):
        raise tensor_names.uneven(path, width, heads) from None


def _wanted(ours: Shapes, first: bool) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all tensors of a checkpoint of this model, theirs."""
    shapes = theirs(ours, NAMES.place)
    tied = {TIED: shapes[PROJECT]} if first else {}
    return shapes | {POSITIONS: (1, LONGEST, shapes[PROJECT][0])} | tied


def _check_computed(path: Path, tensors: Mapping[str, Tensor], sizes: PclSizes) -> None:
    """What a checkpoint holds beside our weights: the table of positions, and W a second time."""
    waves = positions(LONGEST, sizes.width, RELEASED)
    tensor_names.check_sinusoids(path, POSITIONS, tensors[POSITIONS][0], waves, "tokens")
    if TIED in tensors and not torch.equal(tensors[TIED], tensors[PROJECT]):
        raise InputError(f"{path}: {TIED} is not {PROJECT}, with which the model shares it")
