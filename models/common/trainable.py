"""The interface that the training loop needs from a model, in captioning and in pretraining.

B: pairs; N: cells or tokens of an image; D: width; L: words; E: width of the space of retrieval.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Labels:
    """Labels of B pairs, in addition to their captions."""

    changed: Tensor  # (B,), int64: 1 changed, 0 unchanged, -1 unknown
    task: str = ""  # in a phase with several tasks: mlm | mvcl | fda | class_pairs
    classes: Tensor | None = None  # (2, B), int64, for class_pairs: classes of the before and after images


@dataclass(frozen=True)
class Group:
    """Learning rate and weight decay of the tensors whose names match `names`, a regular expression."""

    names: str
    rate: float  # factor of the phase's learning rate
    decays: bool  # True: the phase's weight decay; False: none


class Trainable(nn.Module):
    """Model of a phase: `encoding` maps images to tokens, `losses_of` maps encoded pairs to losses."""

    encoding: nn.Module
    terms: Any  # names of its loss terms: tuple[str, ...], or a property that returns one
    measures: tuple[str, ...] = ()  # names of other results of `losses_of`
    groups: tuple[Group, ...] = ()  # the first that matches a tensor's name; empty: all learn alike
    takes: Mapping[str, str] = MappingProxyType({})  # prefix of names in the previous phase -> prefix here
    starts: Mapping[str, str] = MappingProxyType({})  # prefix of names here -> prefix in CLIP's file
    zero_idle = False  # tensors that a step does not use get zero gradients, so that Adam still moves them

    def losses_of(
        self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1, labels: Labels | None = None
    ) -> dict[str, Tensor]:
        """Return the losses and measures of B encoded pairs, (B, N, D) each: scalars, by name."""
        raise NotImplementedError

    def constrain(self) -> None:
        """Clamp learned temperatures to their bounds; called after each optimiser step."""

    def halve(self) -> None:
        """Convert weights to 16 bits (`half_weights`). Raises ValueError if the model does not support it."""
        raise ValueError("half_weights: the model has no weights to train in 16 bits; set it to false")


class Retrieves(Trainable):
    """Retrieval model: pairs and sentences are vectors of one space, (B, E) each."""

    def pairs(self, before: Tensor, after: Tensor) -> Tensor:
        """Return v, the vectors of encoded image pairs, (B, N, D) each."""
        raise NotImplementedError

    def sentences(self, tokens: Tensor) -> Tensor:
        """Return g, the vectors of captions (B, L) with <START> and <END>."""
        raise NotImplementedError
