"""Released checkpoints of MCCFormers-D and -S -> our model of that name in its released variant.

Such a file holds the encoder and the decoder as whole objects of the authors' classes, read without
executing; their tensors go by the path of their modules (docs/methods.md, "Released checkpoints"). No such
file was at hand.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from models.backbones.resnet101 import CHANNELS
from models.common.decoder import sinusoids
from models.common.trainable import Trainable
from models.mccformers.model import MccSizes
from pipeline.authors_checkpoints import tensor_names
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile
from pipeline.authors_checkpoints.tensor_names import Names, checked, dimensions, shapes_of, theirs
from pipeline.config.store_contents import IMPORTED, Spec
from pipeline.io.errors import InputError
from pipeline.text.vocabularies import MCC_MARKS, WordVocabulary
from pipeline.weights.model_description import Trained

TITLE = "MCCFormers"
REMEDY = f"name a released checkpoint of {TITLE}, with its vocabulary"
FEATURES = Spec("resnet101", "imagenet", stride=16, finer=False, standardise=False, resize=IMPORTED, size=256)
KEYS = ("backbone", "weights", "stride", "finer", "standardise")  # a smaller grid has the tables' first rows
# how it was trained is not in it: dropout is off
SETTINGS = {"variant": "released", "switches": {}, "dropout": 0.5, "default_dropout": 0.1}
PARTS = ("encoder", "decoder")
COLUMNS, ROWS = "encoder.w_embedding.weight", "encoder.h_embedding.weight"
TABLES = {"encoding.column.weight": COLUMNS, "encoding.row.weight": ROWS}
WORDS, POSITIONS = "decoder.vocab_embedding.weight", "decoder.position_encoding.pe"
IMAGES = "encoder.idx_embedding.weight"  # of S alone
OURS = ("decoder.embedding.weight", "decoder.vocabulary.weight", "decoder.vocabulary.bias")  # a row a word


def _layer(ours: str, its: str, attentions: Mapping[str, str], norms: int) -> dict[str, str]:
    block, layer = rf"{ours}\.layers\.(\d+)\.", f"{its}.{{0}}."
    return {
        **{rf"{block}{own}": f"{layer}{name}" for own, name in attentions.items()},
        rf"{block}feed_forward\.0": f"{layer}linear1",
        rf"{block}feed_forward\.3": f"{layer}linear2",
        **{rf"{block}norms\.{number}": f"{layer}norm{number + 1}" for number in range(norms)},
    }


SHARED = {
    r"encoding\.column": "encoder.w_embedding",
    r"encoding\.row": "encoder.h_embedding",
    r"decoder\.embedding": "decoder.vocab_embedding",
    r"decoder\.vocabulary": "decoder.wdc",
} | _layer(
    "decoder",
    "decoder.transformer.layers",
    {"self_attention": "self_attn", "cross_attention": "multihead_attn"},
    norms=3,
)
D_NAMES = SHARED | {r"encoding\.project": "encoder.projection"}
D_NAMES |= _layer("difference", "encoder.transformer", {"attention": "attention"}, norms=2)
S_NAMES = SHARED | {
    r"encoding\.project": "encoder.input_proj",
    r"difference\.images": "encoder.idx_embedding",
}
S_NAMES |= _layer("difference", "encoder.transformer.layers", {"attention": "self_attn"}, norms=2)
NAMES = {"mccformers_d": Names(D_NAMES, joined=True), "mccformers_s": Names(S_NAMES, joined=True)}
LAYERS = {
    "mccformers_d": r"encoder\.transformer\.(\d+)\.",
    "mccformers_s": r"encoder\.transformer\.layers\.(\d+)\.",
}
DECODER_LAYERS = r"decoder\.transformer\.layers\.(\d+)\."


def is_one(file: CheckpointFile) -> bool:
    """Whether the file is one of this system's."""
    tree = file.tree if isinstance(file.tree, dict) else {}
    return all(isinstance(tree.get(part), dict) for part in PARTS) and WORDS in tensors_of(file)


def tensors_of(file: CheckpointFile) -> dict[str, Tensor]:
    """The tensors of both objects, by the path of their modules."""
    return {name: tensor for part in PARTS for name, tensor in _flat(part, file.tree[part])}


def _flat(path: str, held: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    for name, value in held.items():
        if isinstance(value, Tensor):
            yield f"{path}.{name}", value
        elif isinstance(value, dict):
            yield from _flat(f"{path}.{name}", value)


def imported(
    file: CheckpointFile,
    path: Path,
    vocabulary: WordVocabulary,
    dataset: str,
    features: Spec,
    heads: int,
    seed: int,
) -> tuple[Trained, dict[str, Tensor], Trainable]:
    """The checkpoint as our weights, to run on those `features`, what is known of them, and the bare model.

    `path` is its vocabulary's file, `vocabulary` the same in our order. Raises InputError naming the tensor
    or the file that does not fit.
    """
    tensor_names.check_features(features, FEATURES, KEYS)
    found, side = tensors_of(file), features.size // features.stride
    name = "mccformers_s" if IMAGES in found else "mccformers_d"
    sizes = sizes_of(file.path, found, heads, vocabulary, side, name)
    recipe, model = tensor_names.bare(dataset, name, SETTINGS, sizes, features, first=False)
    ours, place = shapes_of(model), NAMES[name].place
    rows = tensor_names.rows_of(path, (*MCC_MARKS, *vocabulary.words[len(MCC_MARKS) :]), TITLE)
    wanted = theirs(ours, place) | {table: tuple(found[table].shape) for table in (COLUMNS, ROWS)}
    wanted[POSITIONS] = (dimensions(file.path, found, POSITIONS, 3, REMEDY)[0], 1, 2 * sizes.width)
    tensors = checked(file.path, found, wanted, TITLE, REMEDY)
    waves = tensors[POSITIONS][:, 0]
    tensor_names.check_sinusoids(file.path, POSITIONS, waves, sinusoids(*waves.shape))
    weights = {each: place(each).of(tensors) for each in ours}
    weights |= {each: weights[each][rows].clone() for each in OURS}
    weights |= {each: weights[each][:side].clone() for each in TABLES}
    shape = CHANNELS[FEATURES.stride], side, side
    return tensor_names.trained(recipe, seed, shape, vocabulary, sizes.longest), weights, model


def sizes_of(
    path: Path, found: Mapping[str, Tensor], heads: int, vocabulary: WordVocabulary, side: int, name: str
) -> MccSizes:
    """The model's sizes on a grid of that side; heads and the longest caption stand in no tensor."""
    project = NAMES[name].place("encoding.project.weight").name
    width, channels, _, _ = dimensions(path, found, project, 4, REMEDY)
    if channels != CHANNELS[FEATURES.stride]:
        raise InputError(f"{path}: {project} reads {channels} channels; stride {FEATURES.stride} has others")
    for table in (COLUMNS, ROWS):
        if (known := dimensions(path, found, table, 2, REMEDY)[0]) < side:
            raise InputError(f"{path}: {table} has {known} rows, the features {side}; set features.size")
    counts = (tensor_names.layers(found, pattern) for pattern in (LAYERS[name], DECODER_LAYERS))
    try:
        data = channels, (side, side), len(vocabulary), vocabulary.longest
        return MccSizes(*data, width, heads, *counts)
    except (ValueError, ZeroDivisionError):
        raise tensor_names.uneven(path, width, heads) from None
