"""Released checkpoints of DUDA and VARD (with LSTMs) -> our model of that name in its released variant.

Such a file is made as SCORER's is: change_detector_state and speaker_state, tensors by name, and model_cfg,
an object of a class of theirs, which is left alone. Names and shapes: docs/methods.md, "DUDA".
Their captions end with <NULL>, and <END> is no token of any; ours have it the other way round. So the rows of
both change places, and what the model computes stays what it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from models.common.dynamic_speaker import SpeakerSizes
from models.common.trainable import Trainable
from models.vard.model import VardSizes
from pipeline.authors_checkpoints import tensor_names
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile
from pipeline.authors_checkpoints.scorer_dirl import DETECTOR, FEATURES, SHAPE, SPEAKER, STATES, tensors_of
from pipeline.authors_checkpoints.tensor_names import Names, checked, dimensions, shapes_of, theirs
from pipeline.config.store_contents import Spec
from pipeline.io.errors import InputError
from pipeline.text.vocabularies import END, NULL, Vocabulary
from pipeline.weights.model_description import Trained

KINDS = 6  # of change, in their classifier, which no loss reads
HEADS = 4  # VARD's
MARK = "core.module_att_lstm.weight_ih"  # in speaker_state, of these systems alone
WORDS, LOOK = f"{SPEAKER}embed.0.weight", f"{SPEAKER}core.embed.0.weight"
MAPS, IMG, IDLE = f"{DETECTOR}embed.0.weight", f"{DETECTOR}img.weight", f"{DETECTOR}fc1."
OF_WORDS = ("decoder.words.weight", "decoder.vocabulary.weight", "decoder.vocabulary.bias")
SETTINGS: dict[str, Any] = {"variant": "released", "switches": {}, "dropout": 0.5}
SHARED = {
    r"difference\.map\.embed": f"{DETECTOR}embed.0",
    r"difference\.map\.norm": f"{DETECTOR}embed.1",
    r"difference\.map\.weigh": f"{DETECTOR}att",
    r"decoder\.words": f"{SPEAKER}embed.0",
    r"decoder\.look": f"{SPEAKER}core.embed.0",
    r"decoder\.weighing": f"{SPEAKER}core.module_att_lstm",
    r"decoder\.weights": f"{SPEAKER}core.weight_fc.0",
    r"decoder\.speaking": f"{SPEAKER}core.lang_lstm",
    r"decoder\.vocabulary": f"{SPEAKER}logit",
}


@dataclass(frozen=True)
class System:
    """One paper's program."""

    title: str
    model: str
    names: Names

    @property
    def remedy(self) -> str:
        """What its user should do."""
        return f"name a released checkpoint of {self.title}"


DUDA = System("DUDA", "duda", Names(SHARED))
VARD = System(
    "VARD",
    "vard",
    Names(
        SHARED
        | {
            r"encoding\.1": f"{DETECTOR}img",
            r"difference\.disentangle\.perl\.attention": f"{DETECTOR}perl",
            r"difference\.disentangle\.perl\.places": f"{DETECTOR}perl.pos.proj.0",
            r"difference\.disentangle\.perl\.norm": f"{DETECTOR}perl.layer_norm",
            r"difference\.disentangle\.same": f"{DETECTOR}urd.layer_norm",
            r"difference\.disentangle\.fuse": f"{DETECTOR}diff.0",
            r"difference\.disentangle\.norm": f"{DETECTOR}diff.1",
            r"difference\.fuse": f"{DETECTOR}diff_feat.0",
            r"difference\.norm": f"{DETECTOR}diff_feat.1",
        }
    ),
)


def is_one(file: CheckpointFile) -> bool:
    """Whether the file is of one of these systems."""
    states = file.tree if isinstance(file.tree, dict) else {}
    speaker = states.get(STATES[1])
    return isinstance(speaker, dict) and MARK in speaker


def imported(
    file: CheckpointFile,
    vocabulary: Vocabulary,
    dataset: str,
    features: Spec,
    heads: int | None,
    longest: int,
    seed: int,
) -> tuple[Trained, dict[str, Tensor], Trainable]:
    """The checkpoint as our weights, what is known of them, and the bare model; as scorer_dirl.py's.

    `heads` (VARD's, HEADS where None) and `longest`, the tokens of the longest caption with both marks, stand
    in no tensor. Raises InputError naming the tensor or the file that does not fit.
    """
    tensor_names.check_features(features, replace(FEATURES, resize=features.resize))
    found = tensors_of(file)
    system = VARD if IMG in found else DUDA
    sizes = sizes_of(file.path, found, system, heads or HEADS, longest)
    tensor_names.check_words(file.path, WORDS, sizes.vocabulary, vocabulary)
    recipe, model = tensor_names.bare(dataset, system.model, SETTINGS, sizes, features, first=False)
    ours = shapes_of(model)
    width = ours["decoder.look.weight"][1] // 3
    idle = {f"{IDLE}weight": (KINDS, width), f"{IDLE}bias": (KINDS,)}
    wanted = idle | theirs(ours, system.names.place)
    tensors = checked(file.path, found, wanted, system.title, system.remedy)
    weights = {name: system.names.place(name).of(tensors) for name in ours}
    weights |= {name: exchanged(weights[name]) for name in OF_WORDS}
    return tensor_names.trained(recipe, seed, SHAPE, vocabulary, longest), weights, model


def exchanged(rows: Tensor) -> Tensor:
    """The rows of <NULL> and <END> in each other's place."""
    found = rows.clone()
    found[NULL], found[END] = rows[END], rows[NULL]
    return found


def sizes_of(
    path: Path, found: Mapping[str, Tensor], system: System, heads: int, longest: int
) -> SpeakerSizes:
    """The model's sizes, from the tensors' shapes."""

    def shape(name: str, count: int) -> tuple[int, ...]:
        return dimensions(path, found, name, count, system.remedy)

    vocabulary, word_width = shape(WORDS, 2)
    data = SHAPE[0], SHAPE[1:], vocabulary, longest
    speaker = shape(MAPS, 4)[0], shape(LOOK, 2)[0], word_width
    try:
        if system is DUDA:
            return SpeakerSizes(*data, *speaker)
        return VardSizes(*data, *speaker, shape(IMG, 2)[0], heads)
    except ValueError as error:
        raise InputError(f"{path}: {error}; {system.remedy}, or mend --heads") from None
