"""Training phases: pretraining and captioning, each with its items, metric and initialisation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

import models.common.entry
from models.common.trainable import Labels, Trainable
from pipeline.config import recipe_file
from pipeline.config.recipe_file import Recipe
from pipeline.datasets.schema import Pair, of_split
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.scoring.tokenizer import TOKENIZERS
from pipeline.text import vocabularies
from pipeline.text.vocabularies import Vocabulary
from pipeline.training.reinforce import POLICY, SelfCritical
from pipeline.training.rewards import reward_of
from pipeline.training.sampling import Batch, Draws, Sampler
from pipeline.training.task_sampling import ClassItems, TaskSampler
from pipeline.training.validation import CIDER, COLUMNS, RetrievalValidation, TaskValidation, Validation
from pipeline.weights import first_weights, trained_model

Keep = Literal["earlier", "later", "last"]


@dataclass(frozen=True)
class Beside:
    """Extra inputs of a pretraining phase, and the weights it starts from."""

    negatives: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by pair id, for the task fda
    classes: Mapping[str, ClassItems] = field(default_factory=dict)  # by split, for the task class_pairs
    keys: tuple[str, ...] = ()  # identities of these inputs
    weights: Path | None = None  # folder that the previous phase wrote
    # learning curves of earlier phases, by the name of their folder next to this phase's curves
    curves: Mapping[str, Path] = field(default_factory=dict)


NOTHING = Beside()


class Objective(Protocol):
    """Losses that a phase minimises, and measures that it records during training."""

    def names(self, model: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the loss terms and of the measures."""

    def __call__(
        self, model: Any, before: Tensor, after: Tensor, tokens: Tensor, batch: Batch, labels: Labels | None
    ) -> dict[str, Tensor]:
        """Return the terms and measures of B pairs, (B, N, D) per image, with their references (R*B, L+1)."""


@dataclass(frozen=True)
class Phase:
    """Phase of a recipe: pretraining or captioning."""

    settings: dict[str, Any]  # params.DatasetTrain, or params.PhaseSettings
    make: Callable[[tuple[int, int, int], Vocabulary], Trainable]  # image shape, vocabulary -> model
    validation: Callable[
        [Sequence[Pair], FeatureStore, Vocabulary], Callable[[Any], float | dict[str, float]]
    ]
    metric: str  # validation score by which a snapshot is chosen
    keep: Keep  # earlier, later: the best snapshot, and which of equal ones; last: the last snapshot
    cut: Callable[[Vocabulary], Vocabulary]  # limits the caption length
    by_sentence: bool = False  # an item is a sentence with its pair, not a scene
    keys: tuple[str, ...] = ()  # identities of inputs, besides the recipe, on which the results depend
    weights: Mapping[str, float] | None = None  # loss weights; None: all are 1
    tasks: tuple[str, ...] = ()  # each iteration trains one of them
    beside: Beside = NOTHING
    log_every: int = 10  # iterations per row of the learning curve
    # function of the training pairs and the vocabulary; None: the losses that the model defines
    objective: Callable[[Sequence[Pair], Vocabulary], Objective] | None = None

    def weight(self, term: str) -> float | None:
        """Return the weight of a loss term, or None if the recipe has none."""
        return 1.0 if self.weights is None else self.weights.get(term)

    def sampler(self, pairs: Sequence[Pair], seed: int) -> Draws:
        """Return the sampler of the train split's batches."""
        own, settings, beside = of_split(pairs, "train"), self.settings, self.beside
        if self.tasks:
            return TaskSampler(own, settings, self.tasks, seed, beside.negatives, beside.classes.get("train"))
        return Sampler(
            own,
            settings["batch"],
            seed,
            settings["exchange"],
            settings["references"],
            self.by_sentence,
            settings.get("mirror", False),
            settings.get("shift", 0),
        )


def captioning(recipe: Recipe, first: Path | None, tokens: str = "ptb") -> Phase:
    """Return the captioning phase of a recipe.

    `first` is the folder of pretrained weights, for a model that has a pretraining phase. `tokens` is the
    tokeniser of the validation. Raises InputError if `first` is needed and missing.
    """
    settings = recipe.train
    if recipe.adapt and first is None:
        raise InputError(
            f"{recipe.model} needs pretrained weights; "
            "name with --start-from the folder that the stage `pretrain` wrote"
        )
    select = settings.get("select", CIDER)
    return Phase(
        settings,
        partial(_made, recipe, None, settings, first if recipe.adapt else None),
        validation=partial(Validation, tokenize=TOKENIZERS[tokens], select=select),
        metric=COLUMNS.get(select, select),
        keep="last" if select == "last" else settings.get("keep") or "earlier",
        cut=_cutting(recipe, settings),
        keys=(tokens, *_start_of(settings)),
        weights={"cap": 1.0} | recipe.loss,
    )


def reinforcing(recipe: Recipe, trained: Path, tokens: str = "ptb") -> Phase:
    """Return the reward phase (reinforce.py), which starts from the weights in the folder `trained`.

    `tokens` is the tokeniser of the validation and of the reward CIDEr-D.
    """
    own = recipe.train["reinforce"]
    named = {name: own[name] for name in ("iterations", "learning_rate", "validate_every")}
    unset = {"schedule": "cosine", "patience": None, "select_after": 0, "mirror": False, "shift": 0}
    settings = recipe.train | named | unset
    phase = captioning(replace(recipe, adapt={}), None, tokens)
    supervised = {name: own["cross_entropy"] * weight for name, weight in (phase.weights or {}).items()}
    tokenize = TOKENIZERS[tokens]

    def objective(pairs: Sequence[Pair], vocabulary: Vocabulary) -> SelfCritical:
        return SelfCritical(reward_of(own, pairs, tokenize), own, vocabulary)

    return replace(
        phase,
        settings=settings,
        make=partial(_trained, trained),
        weights={POLICY: 1.0} | supervised,
        objective=objective,
    )


def _trained(folder: Path, shape: tuple[int, int, int], vocabulary: Vocabulary) -> Trainable:
    """Load the trained model; it already has the shape and the vocabulary."""
    model, _ = trained_model.load(folder)
    return model


def before(recipe: Recipe, declared: models.common.entry.EarlierPhase, beside: Beside = NOTHING) -> Phase:
    """Return a pretraining phase, as the model declares it."""
    settings = recipe.settings_of(declared)
    phase = Phase(
        settings,
        partial(_made, recipe, declared, settings, beside.weights),
        validation=RetrievalValidation,
        metric="R@1",
        keep=settings.get("keep") or "later",
        cut=_cutting(recipe, settings, whole=declared.dataset is not None),
        by_sentence=True,
        keys=(*beside.keys, *_start_of(settings)),
        beside=beside,
    )
    if declared.learns == "retrieval":
        return phase
    model = bare(recipe, declared)
    classes = beside.classes.get("val")
    return replace(
        phase,
        validation=partial(TaskValidation, tasks=model.terms, negatives=beside.negatives, classes=classes),
        metric=model.measures[0],
        keep="last",
        tasks=model.terms,
        log_every=50,  # the tasks share these iterations
    )


def bare(recipe: Recipe, declared: models.common.entry.EarlierPhase) -> Trainable:
    """Return the model of a phase on the meta device: names and shapes without values."""
    pool = recipe.sizes.get("pool", 1)
    with torch.device("meta"):
        built: Trainable = recipe_file.build(
            recipe, recipe.sizes_for((8, 2 * pool, 2 * pool), 8, 8), phase=declared.settings
        )
    return built


def _cutting(
    recipe: Recipe, settings: Mapping[str, Any], whole: bool = False
) -> Callable[[Vocabulary], Vocabulary]:
    """Return a function that limits the caption length of a vocabulary to the setting max_tokens.

    The limit exceeds the longest training caption only if the model pads captions to it, or with `whole`.
    """
    fills, longest = recipe.entry.fills, settings.get("max_tokens")
    switches = recipe_file.switches_of(recipe.model, recipe.dataset, recipe.settings)
    marks = fills(switches) if fills else 0

    def cut(vocabulary: Vocabulary) -> Vocabulary:
        if longest is None:
            return vocabulary
        furthest = longest if marks or whole else min(longest, vocabulary.longest)
        return vocabularies.cut(vocabulary, furthest, marks or 2)

    return cut


def _made(
    recipe: Recipe,
    declared: models.common.entry.EarlierPhase | None,
    settings: dict[str, Any],
    first: Path | None,
    shape: tuple[int, int, int],
    vocabulary: Vocabulary,
) -> Trainable:
    """Build the model of a phase and initialise it; with `half_weights` its weights have 16 bits."""
    sizes = recipe.sizes_for(shape, len(vocabulary), vocabulary.longest)
    model: Trainable = recipe_file.build(recipe, sizes, phase=declared.settings if declared else None)
    if first is not None:
        trained_model.take_over(model, first)
    if "start" in settings:
        first_weights.take_over(model, Path(settings["start"]))
    if settings.get("half_weights"):
        model.halve()
    return model


def _start_of(settings: dict[str, Any]) -> tuple[str, ...]:
    """Return the hash of the file in the setting `start`, if there is one."""
    return (first_weights.identity(Path(settings["start"])),) if "start" in settings else ()
