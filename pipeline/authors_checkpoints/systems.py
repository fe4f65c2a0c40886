"""The systems whose released checkpoints can be imported, and where our parameters stand in them.

Such a file holds change_detector_state and speaker_state, tensors by name (docs/methods.md,
"Released checkpoints"). Names are theirs with the state's in front.
"""

import re
from dataclasses import dataclass
from typing import Any

from torch import Tensor

STATES = ("change_detector_state", "speaker_state")
DETECTOR, SPEAKER = (f"{state}." for state in STATES)
JOINED = ("query", "key", "value")  # the order in one tensor of torch's nn.MultiheadAttention


@dataclass(frozen=True)
class Place:
    """Where a parameter of ours stands: a tensor, one third of its rows, or its transpose."""

    name: str
    third: int | None = None
    transposed: bool = False

    def shape(self, ours: tuple[int, ...]) -> tuple[int, ...]:
        """Of the whole tensor, where our parameter has the shape `ours`."""
        ours = ours[::-1] if self.transposed else ours
        return ours if self.third is None else (len(JOINED) * ours[0], *ours[1:])

    def of(self, tensors: dict[str, Tensor]) -> Tensor:
        """Our parameter, from their tensors by name."""
        tensor = tensors[self.name].T if self.transposed else tensors[self.name]
        return tensor if self.third is None else tensor.chunk(len(JOINED))[self.third].clone()


@dataclass(frozen=True)
class System:
    """One paper's program. A checkpoint is known by the names of its layers."""

    title: str
    model: str  # ours that all its tensors fit
    settings: dict[str, Any]  # of that model, switches aside
    coordinates: tuple[int, ...]  # channels beside the features' that its models read; first its variant's
    layers: str  # a pattern of names, its group the layer
    modules: dict[str, str]  # our modules (patterns) -> theirs; {0} is a layer's number
    joined: bool = False  # an attention's query, key and value are one tensor
    scale: str | None = (
        None  # the learned temperature that every layer has; the contrast reads the last one's
    )

    def place(self, name: str, layers: int) -> Place:
        """Where our parameter of that name stands; `layers` of the encoder. Raises KeyError where nowhere."""
        if self.scale and name == "regularisers.cv.contrast.s":
            return Place(self.scale.format(layers - 1))
        for ours, theirs in self.modules.items():
            if match := re.match(rf"{ours}\.", name):
                return self._within(theirs.format(*match.groups()), name[match.end() :])
        raise KeyError(name)

    def _within(self, module: str, name: str) -> Place:
        part, _, kind = name.rpartition(".")
        if self.joined and part in JOINED:
            return Place(f"{module}.in_proj_{kind}", JOINED.index(part))
        return Place(f"{module}.{'out_proj.' + kind if self.joined and part == 'output' else name}")

    def unused(self, layers: int) -> list[str]:
        """Names of the numbers that stand in a checkpoint beside what the model has."""
        return [self.scale.format(layer) for layer in range(layers - 1)] if self.scale else []


ENCODING = {
    r"encoding\.project": f"{DETECTOR}img.0",
    r"encoding\.column": f"{DETECTOR}w_embedding",
    r"encoding\.row": f"{DETECTOR}h_embedding",
}
# dropout does not count in what is imported, for it is off; nor SCORER's temperature, for it is learned
SCORER = System(
    title="SCORER",
    model="scorer",
    settings={"dropout": 0.1, "temperature": 0.5},
    coordinates=(2,),
    layers=rf"{DETECTOR}scorer\.(\w+)\.",
    scale=f"{DETECTOR}scorer.{{0}}.attention.logit_scale",
    modules=ENCODING
    | {
        r"difference\.attentions\.(\d+)": f"{DETECTOR}scorer.{{0}}.attention",
        r"difference\.norms\.(\d+)": f"{DETECTOR}scorer.{{0}}.attention.layer_norm",
        r"difference\.fuse": f"{DETECTOR}embed_fc.0",
        r"decoder\.embedding": f"{SPEAKER}core.embed",
        r"decoder\.project": f"{SPEAKER}core.fc.0",
        r"decoder\.norm": f"{SPEAKER}core.fc.2",
        r"decoder\.layers\.(\d+)\.self_attention": f"{SPEAKER}core.layer.{{0}}.self_attention",
        r"decoder\.layers\.(\d+)\.norms\.0": f"{SPEAKER}core.layer.{{0}}.norm1",
        r"decoder\.layers\.(\d+)\.cross_attention": f"{SPEAKER}core.layer.{{0}}.dec_enc_attention",
        r"decoder\.layers\.(\d+)\.norms\.1": f"{SPEAKER}core.layer.{{0}}.norm2",
        r"decoder\.layers\.(\d+)\.feed_forward\.0": f"{SPEAKER}core.layer.{{0}}.hidden_intermediate.dense",
        r"decoder\.layers\.(\d+)\.feed_forward\.2": f"{SPEAKER}core.layer.{{0}}.output.dense",
        r"decoder\.layers\.(\d+)\.norms\.2": f"{SPEAKER}core.layer.{{0}}.output.LayerNorm",
        r"decoder\.vocabulary": f"{SPEAKER}logit",
    },
)
DIRL = System(
    title="DIRL",
    model="dirl_ccr",
    settings={"dropout": 0.1, "alpha": 0.003, "temperature": 0.5},
    coordinates=(0, 2),  # none on CLEVR-DC; released models for CLEVR-Change may read them
    layers=rf"{DETECTOR}transformer\.(\w+)\.",
    joined=True,
    modules=ENCODING
    | {
        r"regularisers\.dirl\.mlp": f"{DETECTOR}mlp",
        r"difference\.attentions\.(\d+)": f"{DETECTOR}transformer.{{0}}.attention",
        r"difference\.norms\.(\d+)": f"{DETECTOR}transformer.{{0}}.norm1",
        r"difference\.fuse": f"{SPEAKER}core.embed_fc.0",
        r"difference\.norm": f"{SPEAKER}core.embed_fc.1",
        r"decoder\.embedding": f"{SPEAKER}core.embed",
        r"decoder\.project": f"{SPEAKER}core.fc.0",
        r"decoder\.norm": f"{SPEAKER}core.fc.1",
        r"decoder\.layers\.(\d+)\.self_attention": f"{SPEAKER}core.layer.{{0}}.self_att",
        r"decoder\.layers\.(\d+)\.norms\.0": f"{SPEAKER}core.layer.{{0}}.norm1",
        r"decoder\.layers\.(\d+)\.cross_attention": f"{SPEAKER}core.layer.{{0}}.cross_att",
        r"decoder\.layers\.(\d+)\.norms\.1": f"{SPEAKER}core.layer.{{0}}.norm2",
        r"decoder\.layers\.(\d+)\.feed_forward\.0": f"{SPEAKER}core.layer.{{0}}.linear1",
        r"decoder\.layers\.(\d+)\.feed_forward\.3": f"{SPEAKER}core.layer.{{0}}.linear2",
        r"decoder\.layers\.(\d+)\.norms\.2": f"{SPEAKER}core.layer.{{0}}.norm3",
        r"decoder\.vocabulary": f"{SPEAKER}logit",
    },
)
SYSTEMS = (SCORER, DIRL)
TITLES = " or ".join(system.title for system in SYSTEMS)
