"""Entry: the declaration of a model. Other packages use a model only through its Entry."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from models.common.captioner import Captioner
from models.common.grid_embedding import DataSizes, Sizes
from models.common.trainable import Trainable

GRID, PIXELS = "grid", "pixels"  # kinds of input of a model: features of a backbone, or images
# training as the papers' programs do it. The models of SCORER and DIRL have the dataset's values instead
PLAIN = {"precision": "float32", "compile": "off"}
Layer = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class PretrainingPhase:
    """Declaration of a pretraining phase of a model.

    The phase trains a Trainable that is built from the model's sizes and settings.
    """

    # also the name of its section in the layers of settings (pipeline/config/resolving.py)
    name: Literal["adapt", "images", "pretrain"]
    build: Callable[..., Trainable]  # arguments as for Entry.build
    # retrieval of pairs by captions, with snapshots selected by R@1 | several tasks, one per iteration
    objective: Literal["retrieval", "tasks"]
    exists: Callable[[Any], bool] = lambda switches: True  # true if a model with these switches has the phase
    dataset: Literal["cub"] | None = None  # dataset of single images; None: the pairs of the model's dataset
    # names of the tasks that a model with these switches learns, in the order of its loss terms
    tasks: Callable[[Any], tuple[str, ...]] = lambda switches: ()


@dataclass(frozen=True)
class Entry:
    """Declaration of a model. `model.<name>` in params.yaml overrides its settings."""

    # (sizes, switches, *, settings) -> Captioner; the annotations of the settings are checked
    build: Callable[..., Captioner]
    released: Any  # switches of the variant `released`, the authors' program
    switches: frozenset[str]  # names of the switches that concern the model
    sizes: type[DataSizes] = Sizes
    family: str | None = None  # name of models with shared settings, dataset.<dataset>.models.<family>
    reads: Callable[[Any], str] = lambda switches: GRID  # kind of input: GRID or PIXELS
    pretraining: tuple[PretrainingPhase, ...] = ()  # phases before the captioning, in order
    captioning: tuple[str, ...] = ()  # switches that concern only the captioning
    # Settings of the model on all datasets: section (settings, sizes, loss, train, a phase) -> key -> value.
    # They override the dataset's. `loss` names all loss terms but the caption's; None: the dataset's weight
    layer: Layer = field(default_factory=dict)
    # names of the loss terms that a model with these switches and settings does not have
    left_out: Callable[[Any, Mapping[str, Any]], Collection[str]] = lambda switches, settings: ()
    # None: the model's phases have no setting max_tokens. Otherwise a function of the switches. It returns
    # the number of a caption's special tokens if captions are padded to max_tokens, and 0 if captions are
    # padded to the longest training caption
    fills: Callable[[Any], int] | None = None

    @property
    def retrieves(self) -> bool:
        return any(phase.objective == "retrieval" for phase in self.pretraining)

    def pretraining_of(self, switches: Any) -> tuple[PretrainingPhase, ...]:
        return tuple(phase for phase in self.pretraining if phase.exists(switches))

    def phase(self, name: str) -> PretrainingPhase | None:
        return next((phase for phase in self.pretraining if phase.name == name), None)
