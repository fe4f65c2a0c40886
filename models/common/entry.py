"""Entry: the declaration of a model. Other packages use a model only through its Entry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from models.common.captioner import Captioner
from models.common.grid_embedding import DataSizes, Sizes
from models.common.trainable import Trainable

GRID, PIXELS = "grid", "pixels"  # kinds of input of a model: features of a backbone, or images


@dataclass(frozen=True)
class EarlierPhase:
    """Declaration of a pretraining phase of a model.

    The phase trains a Trainable that is built from the model's sizes and settings.
    """

    # name of the phase; its settings in params.yaml are dataset.<dataset>.own.<Entry.own>.<name of the phase>
    settings: Literal["adapt", "images", "pretrain"]
    build: Callable[..., Trainable]  # arguments as for Entry.build
    # retrieval of pairs by captions, with snapshots selected by R@1 | several tasks, one per iteration
    learns: Literal["retrieval", "tasks"]
    exists: Callable[[Any], bool] = lambda switches: True  # true if a model with these switches has the phase
    dataset: Literal["cub"] | None = None  # dataset of single images; None: the pairs of the model's dataset


@dataclass(frozen=True)
class Entry:
    """Declaration of a model. The model's settings are `model.<name>` in params.yaml."""

    # (sizes, switches, *, settings) -> Captioner; the annotations of the settings are checked
    build: Callable[..., Captioner]
    released: Any  # switches of the variant `released`, the authors' program
    switches: frozenset[str]  # names of the switches that concern the model
    sizes: type[DataSizes] = Sizes
    own: str | None = None  # key of the model's sizes and phases in dataset.<name>.own, if they are there
    reads: Callable[[Any], str] = lambda switches: GRID  # kind of input: GRID or PIXELS
    phases: tuple[EarlierPhase, ...] = ()  # pretraining phases, in order
    captioning: tuple[str, ...] = ()  # switches that concern only the captioning
    loss: Mapping[str, float] = field(default_factory=dict)  # default weights of the loss terms
    # None: the model's phases have no setting max_tokens. Otherwise a function of the switches. It returns
    # the number of a caption's special tokens if captions are padded to max_tokens, and 0 if captions are
    # padded to the longest training caption
    fills: Callable[[Any], int] | None = None

    @property
    def retrieves(self) -> bool:
        return any(phase.learns == "retrieval" for phase in self.phases)

    def phases_of(self, switches: Any) -> tuple[EarlierPhase, ...]:
        return tuple(phase for phase in self.phases if phase.exists(switches))

    def phase(self, settings: str) -> EarlierPhase | None:
        return next((phase for phase in self.phases if phase.settings == settings), None)
