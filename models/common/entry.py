"""What the laboratory knows of a model beside its modules: the one thing to write when a model is added."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from models.common.captioner import Captioner
from models.common.grid_embedding import DataSizes, Sizes
from models.common.trainable import Trainable

GRID, PIXELS = "grid", "pixels"  # what a model reads: a backbone's features, or the images themselves


@dataclass(frozen=True)
class EarlierPhase:
    """What a model learns before captioning: a Trainable of its own, from the same sizes and settings."""

    settings: Literal["adapt", "images", "pretrain"]  # their name in dataset.<name>.own.<own>
    build: Callable[..., Trainable]  # as an Entry's
    # how sentences find their pairs, chosen by R@1 | several tasks, of which an iteration has one
    learns: Literal["retrieval", "tasks"]
    asked: Callable[[Any], bool] = lambda switches: True  # whether a model of these switches has the phase
    dataset: Literal["cub"] | None = None  # whose single images it sees; None: the pairs of the model's own


@dataclass(frozen=True)
class Entry:
    """A model. Its settings are what stands in `model.<name>` of params.yaml."""

    # (sizes, switches, *, settings by keyword) -> the captioning; a keyword's annotation is checked
    build: Callable[..., Captioner]
    released: Any  # the switches of the variant `released`: of its authors' program
    switches: frozenset[str]  # the names of those that concern it
    sizes: type[DataSizes] = Sizes
    own: str | None = (
        None  # below which name of dataset.<name>.own its sizes and phases stand; None: not there
    )
    reads: Callable[[Any], str] = lambda switches: GRID
    phases: tuple[EarlierPhase, ...] = ()  # before captioning, in their order
    captioning: tuple[str, ...] = ()  # switches that concern the captioning alone, and no phase before
    loss: Mapping[str, float] = field(default_factory=dict)  # weights of its terms where a dataset has none
    # how many marks a caption has beside its words where it is filled up to a phase's max_tokens, 0 where it
    # is as long as the longest training caption; None: its phases have no max_tokens
    fills: Callable[[Any], int] | None = None

    @property
    def retrieves(self) -> bool:
        """Whether it learns to retrieve before it captions."""
        return any(phase.learns == "retrieval" for phase in self.phases)

    def phases_of(self, switches: Any) -> tuple[EarlierPhase, ...]:
        """The phases before captioning of a model of these switches."""
        return tuple(phase for phase in self.phases if phase.asked(switches))

    def phase(self, settings: str) -> EarlierPhase | None:
        """The phase before captioning of that name."""
        return next((phase for phase in self.phases if phase.settings == settings), None)
