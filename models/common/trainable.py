"""Trainable: interface between the training loop and a model, in captioning and in pretraining.

B: pairs; N: cells or tokens of an image; D: width; L: words; E: width of the vectors of retrieval.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn

# kinds of change, and "none" for an unchanged pair, in the order of their numbers in Labels.kinds
KINDS = ("color", "texture", "add", "drop", "move", "none")


@dataclass(frozen=True)
class Labels:
    """Labels of B pairs, in addition to their captions."""

    changed: Tensor  # (B,), int64: 1 changed, 0 unchanged, -1 unknown
    task: str = ""  # task of the batch, in a phase with several tasks: mlm | mvcl | fda | class_pairs
    classes: Tensor | None = None  # (2, B), int64, for class_pairs: classes of the before and after images
    kinds: Tensor | None = None  # (B,), int64: numbers in KINDS, -1 unknown; only MEDIC reads them


@dataclass(frozen=True)
class Group:
    """Group of tensors that have the same learning rate and weight decay."""

    names: str  # regular expression, which matches the names of the tensors
    rate: float  # factor by which the phase's learning rate is multiplied
    decays: bool  # True: the tensors have the phase's weight decay; False: none


class Trainable(nn.Module):
    """Base class of the models that the training loop can train, in captioning and in pre-training.

    A subclass defines `encoding`, the module that encodes an image. It also defines `losses_of`, which
    computes the losses from the encodings of both images.
    """

    encoding: nn.Module
    terms: Any  # names of the loss terms: tuple[str, ...], or a property that returns such a tuple
    measures: tuple[str, ...] = ()  # names of the results of `losses_of` that are not losses
    # a tensor is in the first group that matches its name; without groups, all tensors learn in the same way
    groups: tuple[Group, ...] = ()
    # tensors to copy from the model of the previous phase: prefix of their names there -> prefix here
    takes: Mapping[str, str] = MappingProxyType({})
    # tensors to copy from CLIP's file: prefix of their names here -> prefix in the file
    starts: Mapping[str, str] = MappingProxyType({})
    kinds: tuple[str, ...] = ()  # kinds, some of KINDS, that the model learns from labels
    # True: tensors that a step does not use get zero gradients, so that Adam still moves them
    zero_idle = False

    def losses_of(
        self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1, labels: Labels | None = None
    ) -> dict[str, Tensor]:
        """Return losses and measures, scalars by name, for both images' encodings, (B, N, D) each.

        A pair is contrasted only with pairs of its part of `parts` equal parts. `labels` say which pairs are
        changed and, in pre-training, the batch's task and the images' classes. Each model defines the effect
        of None.
        """
        raise NotImplementedError

    def constrain(self) -> None:
        """Clamp learned temperatures to their bounds; called after each optimiser step."""

    def halve(self) -> None:
        raise ValueError("half_weights: the model has no weights to train in 16 bits; set it to false")


class Retrieves(Trainable):
    """Base class of retrieval models, which compute vectors of pairs and of captions in a common space."""

    def pairs(self, before: Tensor, after: Tensor) -> Tensor:
        """Return a vector for each pair of encoded images: (B, N, D) each -> (B, E)."""
        raise NotImplementedError

    def sentences(self, tokens: Tensor) -> Tensor:
        """Return the vectors of captions, which have <START> and <END>: (B, L) -> (B, E)."""
        raise NotImplementedError
