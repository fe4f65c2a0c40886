"""Entry: the declaration of a model. Other packages use a model only through its Entry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from models.common.captioner import Captioner
from models.common.grid_embedding import DataSizes, Sizes
from models.common.trainable import Trainable

GRID, PIXELS = "grid", "pixels"  # a model's input: features of a backbone, or images


@dataclass(frozen=True)
class EarlierPhase:
    """Pretraining phase of a model: a Trainable built from the same sizes and settings."""

    settings: Literal["adapt", "images", "pretrain"]  # name of its settings in dataset.<name>.own.<own>
    build: Callable[..., Trainable]  # as Entry.build
    # retrieval of pairs by sentences, selected by R@1 | several tasks, one per iteration
    learns: Literal["retrieval", "tasks"]
    asked: Callable[[Any], bool] = lambda switches: True  # true if a model with these switches has the phase
    dataset: Literal["cub"] | None = None  # dataset of single images; None: the pairs of the model's dataset


@dataclass(frozen=True)
class Entry:
    """Declaration of a model. Its settings are `model.<name>` in params.yaml."""

    # (sizes, switches, *, settings) -> Captioner; the annotations of the settings are checked
    build: Callable[..., Captioner]
    released: Any  # switches of the variant `released`, the authors' program
    switches: frozenset[str]  # names of the switches that concern it
    sizes: type[DataSizes] = Sizes
    own: str | None = None  # key of its sizes and phases in dataset.<name>.own, if they are there
    reads: Callable[[Any], str] = lambda switches: GRID
    phases: tuple[EarlierPhase, ...] = ()  # pretraining phases, in order
    captioning: tuple[str, ...] = ()  # switches that concern only the captioning
    loss: Mapping[str, float] = field(default_factory=dict)  # default weights of its loss terms
    # number of marks of a caption that is padded to the phase's max_tokens; 0: captions are padded to the
    # longest training caption; None: its phases have no max_tokens
    fills: Callable[[Any], int] | None = None

    @property
    def retrieves(self) -> bool:
        """True if a pretraining phase learns retrieval."""
        return any(phase.learns == "retrieval" for phase in self.phases)

    def phases_of(self, switches: Any) -> tuple[EarlierPhase, ...]:
        """Return the pretraining phases of a model with these switches."""
        return tuple(phase for phase in self.phases if phase.asked(switches))

    def phase(self, settings: str) -> EarlierPhase | None:
        """Return the pretraining phase of that name."""
        return next((phase for phase in self.phases if phase.settings == settings), None)
