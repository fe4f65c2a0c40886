"""Released checkpoints of CARD -> our model `card` in its released variant.

Such a file has the entries of SCORER's (scorer_dirl.py), names and shapes of its own (docs/methods.md,
"Released checkpoints").
"""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from models.card.model import CardSizes
from models.common.decoder import sinusoids
from models.common.trainable import Trainable
from pipeline.authors_checkpoints import tensor_names
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile
from pipeline.authors_checkpoints.scorer_dirl import (
    DETECTOR,
    EMBEDDING,
    POSITIONS,
    PROJECT,
    SHAPE,
    SPEAKER,
    tensors_of,
)
from pipeline.authors_checkpoints.scorer_dirl import FEATURES as FEATURES
from pipeline.authors_checkpoints.tensor_names import Names, checked, dimensions, shapes_of, theirs
from pipeline.config.store_contents import Spec
from pipeline.io.errors import InputError
from pipeline.text.vocabularies import Vocabulary
from pipeline.weights.model_description import Trained

TITLE, MODEL = "CARD", "card"
REMEDY = f"name a released checkpoint of {TITLE}"
KEYS = ("backbone", "weights", "stride", "finer", "standardise", "size")  # of "bicubic" no more is known
# how it was trained is not in it: dropout is off, the temperature is learned
SETTINGS = {"variant": "released", "switches": {}, "dropout": 0.1, "temperature": 0.07}
CELLS = f"{DETECTOR}positions"
LAYER = rf"{SPEAKER}core\.layer\.(\w+)\."
NAMES = Names(
    {
        r"encoding\.project": f"{DETECTOR}img.0",
        r"difference\.positions": CELLS,
        r"difference\.before_token": f"{DETECTOR}bef_cls_token",
        r"difference\.after_token": f"{DETECTOR}aft_cls_token",
        r"difference\.own_block\.attention": f"{DETECTOR}encoder.attention",
        r"difference\.own_block\.norm": f"{DETECTOR}encoder.norm1",
        r"difference\.common_block\.attention": f"{DETECTOR}transformer.attention",
        r"difference\.common_block\.norm": f"{DETECTOR}transformer.norm1",
        r"difference\.common": f"{DETECTOR}common_proj",
        r"difference\.before_own": f"{DETECTOR}bef_diff",
        r"difference\.after_own": f"{DETECTOR}aft_diff",
        r"difference\.local_common\.map": f"{DETECTOR}common_trans.0",
        r"difference\.before_local\.map": f"{DETECTOR}diff_trans.0",
        r"difference\.after_local\.map": f"{DETECTOR}diff_trans2.0",
        r"difference\.fuse\.map": f"{DETECTOR}fc.0",
        r"regularisers\.con\.temperature": f"{DETECTOR}temp",
        r"decoder\.embedding": f"{SPEAKER}core.embed",
        r"decoder\.project": f"{SPEAKER}core.fc.0",
        r"decoder\.vocabulary": f"{SPEAKER}logit",
        r"decoder\.layers\.(\d+)\.self_attention": f"{SPEAKER}core.layer.{{0}}.self_att",
        r"decoder\.layers\.(\d+)\.cross_attention": f"{SPEAKER}core.layer.{{0}}.cross_att",
        r"decoder\.layers\.(\d+)\.feed_forward\.0": f"{SPEAKER}core.layer.{{0}}.linear1",
        r"decoder\.layers\.(\d+)\.feed_forward\.3": f"{SPEAKER}core.layer.{{0}}.linear2",
        r"decoder\.layers\.(\d+)\.norms\.0": f"{SPEAKER}core.layer.{{0}}.norm1",
        r"decoder\.layers\.(\d+)\.norms\.1": f"{SPEAKER}core.layer.{{0}}.norm2",
        r"decoder\.layers\.(\d+)\.norms\.2": f"{SPEAKER}core.layer.{{0}}.norm3",
    },
    joined=True,
)


def is_one(file: CheckpointFile) -> bool:
    """Whether the file is one of this system's."""
    state = file.tree.get(DETECTOR[:-1]) if isinstance(file.tree, dict) else None
    return isinstance(state, dict) and CELLS.removeprefix(DETECTOR) in state


def imported(
    file: CheckpointFile, vocabulary: Vocabulary, dataset: str, features: Spec, heads: int, seed: int
) -> tuple[Trained, dict[str, Tensor], Trainable]:
    """The checkpoint as our weights, what is known of them, and the bare model.

    Raises InputError naming the tensor or the file that does not fit.
    """
    tensor_names.check_features(features, FEATURES, KEYS)
    found = tensors_of(file)
    sizes = sizes_of(file.path, found, heads)
    tensor_names.check_words(file.path, EMBEDDING, sizes.vocabulary, vocabulary)
    recipe, model = tensor_names.bare(dataset, MODEL, SETTINGS, sizes, features, first=False)
    ours = shapes_of(model)
    wanted = theirs(ours, NAMES.place) | {POSITIONS: (sizes.longest, sizes.word_width)}
    tensors = checked(file.path, found, wanted, TITLE, REMEDY)
    waves = sinusoids(sizes.longest, sizes.word_width)
    tensor_names.check_sinusoids(file.path, POSITIONS, tensors[POSITIONS], waves)
    trained = tensor_names.trained(recipe, seed, SHAPE, vocabulary, sizes.longest)
    return trained, {name: NAMES.place(name).of(tensors) for name in ours}, model


def sizes_of(path: Path, found: Mapping[str, Tensor], heads: int) -> CardSizes:
    """The model's sizes, from the tensors' shapes; `heads` stands in none of them."""
    width = dimensions(path, found, PROJECT, 4, REMEDY)[0]
    words, word_width = dimensions(path, found, EMBEDDING, 2, REMEDY)
    longest = dimensions(path, found, POSITIONS, 2, REMEDY)[0]
    try:
        return CardSizes(
            SHAPE[0], SHAPE[1:], words, longest, width, heads, tensor_names.layers(found, LAYER), word_width
        )
    except ValueError as error:
        raise InputError(f"{path}: {error}; mend --heads, or {REMEDY}") from None
