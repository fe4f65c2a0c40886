"""What the training loop asks of what it trains, whichever phase of whichever model that is."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Labels:
    """What is known of B pairs beside their captions."""

    changed: Tensor  # B, int64: 1 changed, 0 not, -1 nobody says
    task: str = ""  # of a phase of several tasks: mlm | mvcl | fda | class_pairs
    classes: Tensor | None = None  # (2, B), int64, of class_pairs: what the before and the after images show


@dataclass(frozen=True)
class Group:
    """How tensors are trained whose names hold the pattern `names`, a regular expression."""

    names: str
    rate: float  # times the phase's learning rate
    decays: bool  # whether the phase's weight decay is theirs


class Trainable(nn.Module):
    """`encoding` makes tokens of images, `losses_of` losses of two images' tokens and their captions."""

    encoding: nn.Module
    terms: Any  # names of its loss terms: tuple[str, ...], or a property that gives one
    measures: tuple[str, ...] = ()  # what `losses_of` gives beside the losses
    groups: tuple[Group, ...] = ()  # the first that fits a tensor's name counts; none: all learn alike
    takes: Mapping[str, str] = MappingProxyType({})  # first letters of names in the phase before -> here
    starts: Mapping[str, str] = MappingProxyType({})  # the same of names here -> in a file of first weights
    zero_idle = False  # what a step does not use gets zero gradients: Adam's means still move it

    def losses_of(
        self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1, labels: Labels | None = None
    ) -> dict[str, Tensor]:
        """The losses and measures of B encoded pairs, (B, N, D) each: scalars, by name."""
        raise NotImplementedError

    def constrain(self) -> None:
        """To call after every step of the optimiser: learned temperatures stay in their bounds."""

    def halve(self) -> None:
        """Train in 16 bits what `half_weights` of a phase means. Raises ValueError where that is nothing."""
        raise ValueError("half_weights: the model has no weights to train in 16 bits; set it to false")


class Retrieves(Trainable):
    """A model of a phase by which sentences find their pairs: vectors of one space, (B, E) each."""

    def pairs(self, before: Tensor, after: Tensor) -> Tensor:
        """v, of encoded images, (B, N, D) each."""
        raise NotImplementedError

    def sentences(self, tokens: Tensor) -> Tensor:
        """g, of captions (B, L) with both marks."""
        raise NotImplementedError
