"""Released checkpoints of SCORER and DIRL -> our model of that system in its released variant.

Such a file holds change_detector_state and speaker_state, tensors by name (docs/methods.md, "Released
checkpoints"); names are theirs with the state's in front. It also holds model_cfg, an object of a class of
theirs, which is left alone. Backward reasoning's weights are not in it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from models.backbones.resnet101 import CHANNELS
from models.common.captioner import Sizes
from models.common.decoder import sinusoids
from models.common.trainable import Trainable
from pipeline.authors_checkpoints import tensor_names
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile
from pipeline.authors_checkpoints.tensor_names import Names, checked, dimensions, shapes_of, theirs
from pipeline.config.store_contents import Spec
from pipeline.io.errors import InputError
from pipeline.text.vocabularies import Vocabulary
from pipeline.weights.model_description import Trained

STATES = ("change_detector_state", "speaker_state")
DETECTOR, SPEAKER = (f"{state}." for state in STATES)
FEATURES = Spec(
    "resnet101", "imagenet", stride=16, finer=False, standardise=False, resize="opencv_bicubic", size=224
)
SIDE = FEATURES.size // FEATURES.stride
SHAPE = CHANNELS[FEATURES.stride], SIDE, SIDE  # C, H, W
PROJECT = f"{DETECTOR}img.0.weight"
POSITIONS = f"{SPEAKER}core.position_enc.pe"
EMBEDDING = f"{SPEAKER}core.embed.weight"
SCALE = f"{DETECTOR}scorer.{{0}}.attention.logit_scale"


@dataclass(frozen=True)
class System:
    """One paper's program. A checkpoint is known by the names of its layers."""

    title: str
    model: str  # ours that all its tensors fit
    settings: dict[str, Any]  # of that model, switches aside
    coordinates: tuple[int, ...]  # channels beside the features' that its models read; first its variant's
    layers: str  # a pattern of names, its group the layer
    names: Names
    scaled: bool = False  # every layer has a learned temperature; the contrast reads the last one's

    @property
    def remedy(self) -> str:
        """What its user should do."""
        return f"name a released checkpoint of {self.title}"

    def names_of(self, layers: int) -> Names:
        """With the temperature, which is of the last of the encoder's layers."""
        scale = {r"regularisers\.cv\.contrast\.s": SCALE.format(layers - 1)} if self.scaled else {}
        return Names(self.names.table | scale, self.names.joined)

    def unused(self, layers: int) -> list[str]:
        """Names of the numbers that stand in a checkpoint beside what the model has."""
        return [SCALE.format(layer) for layer in range(layers - 1)] if self.scaled else []


def _decoder(inside: dict[str, str]) -> dict[str, str]:
    """A decoder layer's parts."""
    return {
        rf"decoder\.layers\.(\d+)\.{ours}": f"{SPEAKER}core.layer.{{0}}.{its}" for ours, its in inside.items()
    }


SHARED = {
    r"encoding\.project": f"{DETECTOR}img.0",
    r"encoding\.column": f"{DETECTOR}w_embedding",
    r"encoding\.row": f"{DETECTOR}h_embedding",
    r"decoder\.embedding": f"{SPEAKER}core.embed",
    r"decoder\.project": f"{SPEAKER}core.fc.0",
    r"decoder\.vocabulary": f"{SPEAKER}logit",
}
# dropout does not count in what is imported, for it is off; nor SCORER's temperature, for it is learned
SCORER = System(
    title="SCORER",
    model="scorer",
    settings={"dropout": 0.1, "temperature": 0.5},
    coordinates=(2,),
    layers=rf"{DETECTOR}scorer\.(\w+)\.",
    scaled=True,
    names=Names(
        SHARED
        | {
            r"difference\.attentions\.(\d+)": f"{DETECTOR}scorer.{{0}}.attention",
            r"difference\.norms\.(\d+)": f"{DETECTOR}scorer.{{0}}.attention.layer_norm",
            r"difference\.fuse": f"{DETECTOR}embed_fc.0",
            r"decoder\.norm": f"{SPEAKER}core.fc.2",
        }
        | _decoder(
            {
                "self_attention": "self_attention",
                r"norms\.0": "norm1",
                "cross_attention": "dec_enc_attention",
                r"norms\.1": "norm2",
                r"feed_forward\.0": "hidden_intermediate.dense",
                r"feed_forward\.2": "output.dense",
                r"norms\.2": "output.LayerNorm",
            }
        )
    ),
)
DIRL = System(
    title="DIRL",
    model="dirl_ccr",
    settings={"dropout": 0.1, "alpha": 0.003, "temperature": 0.5},
    coordinates=(0, 2),  # none on CLEVR-DC; released models for CLEVR-Change may read them
    layers=rf"{DETECTOR}transformer\.(\w+)\.",
    names=Names(
        SHARED
        | {
            r"regularisers\.dirl\.mlp": f"{DETECTOR}mlp",
            r"difference\.attentions\.(\d+)": f"{DETECTOR}transformer.{{0}}.attention",
            r"difference\.norms\.(\d+)": f"{DETECTOR}transformer.{{0}}.norm1",
            r"difference\.fuse": f"{SPEAKER}core.embed_fc.0",
            r"difference\.norm": f"{SPEAKER}core.embed_fc.1",
            r"decoder\.norm": f"{SPEAKER}core.fc.1",
        }
        | _decoder(
            {
                "self_attention": "self_att",
                r"norms\.0": "norm1",
                "cross_attention": "cross_att",
                r"norms\.1": "norm2",
                r"feed_forward\.0": "linear1",
                r"feed_forward\.3": "linear2",
                r"norms\.2": "norm3",
            }
        ),
        joined=True,
    ),
)
SYSTEMS = (SCORER, DIRL)
TITLES = " or ".join(system.title for system in SYSTEMS)


def imported(
    file: CheckpointFile, vocabulary: Vocabulary, dataset: str, features: Spec, heads: int, seed: int
) -> tuple[Trained, dict[str, Tensor], Trainable]:
    """The checkpoint as our weights, to run on those `features`, what is known of them, and the bare model.

    `seed` is the cell's that it shall stand in. Raises InputError naming the tensor or the file that does not
    fit.
    """
    found = tensors_of(file)
    system = system_of(file.path, found)
    sizes = sizes_of(file.path, found, heads, system)
    beside = found[PROJECT].shape[1] - sizes.channels
    own = settings(system, beside)
    recipe, model = tensor_names.bare(dataset, system.model, own, sizes, features, first=False)
    ours = shapes_of(model)
    _check_surroundings(file.path, sizes, beside, vocabulary)
    tensors = checked(file.path, found, wanted(system, sizes, ours), system.title, system.remedy)
    waves = sinusoids(sizes.longest, sizes.word_width)
    tensor_names.check_sinusoids(file.path, POSITIONS, tensors[POSITIONS], waves)
    names = system.names_of(sizes.layers)
    trained = tensor_names.trained(recipe, seed, SHAPE, vocabulary, sizes.longest)
    return trained, {name: names.place(name).of(tensors) for name in ours}, model


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


def sizes_of(path: Path, found: Mapping[str, Tensor], heads: int, system: System) -> Sizes:
    """The model's sizes, from the tensors' shapes; `heads` stands in none of them."""

    def shape(name: str, count: int) -> tuple[int, ...]:
        return dimensions(path, found, name, count, system.remedy)

    width, channels, _, _ = shape(PROJECT, 4)
    if heads < 1 or width % heads:
        raise tensor_names.uneven(path, width, heads)
    vocabulary, word_width = shape(EMBEDDING, 2)
    beside = channels - SHAPE[0]
    return Sizes(
        channels - (beside if beside in system.coordinates else system.coordinates[0]),
        (shape(f"{DETECTOR}h_embedding.weight", 2)[0], shape(f"{DETECTOR}w_embedding.weight", 2)[0]),
        vocabulary,
        shape(POSITIONS, 2)[0],
        width,
        heads,
        tensor_names.layers(found, system.layers),
        tensor_names.layers(found, rf"{SPEAKER}core\.layer\.(\w+)\."),
        word_width,
    )


def settings(system: System, beside: int) -> dict[str, Any]:
    """Of our model in the system's released variant, which reads so many coordinates."""
    other = beside != system.coordinates[0]
    switches = {"coordinates": bool(beside)} if other else {}
    return {"variant": "released", "switches": switches} | system.settings


def wanted(system: System, sizes: Sizes, ours: tensor_names.Shapes) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all tensors of a checkpoint of this model, theirs."""
    unused = dict.fromkeys(system.unused(sizes.layers), ())
    shapes = theirs(ours, system.names_of(sizes.layers).place)
    return unused | shapes | {POSITIONS: (sizes.longest, sizes.word_width)}


def _check_surroundings(path: Path, sizes: Sizes, beside: int, vocabulary: Vocabulary) -> None:
    """The features that the model reads, and the words that it writes."""
    if (shape := (sizes.channels, *sizes.grid)) != SHAPE:
        raise InputError(
            f"{path}: its model reads features of {shape} with {beside} coordinates more, "
            f"but stride {FEATURES.stride} at {FEATURES.size} pixels gives {SHAPE}"
        )
    tensor_names.check_words(path, EMBEDDING, sizes.vocabulary, vocabulary)
