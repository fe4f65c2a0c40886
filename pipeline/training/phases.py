"""The phases that the one loop trains: what an item is, how a snapshot is chosen, what it starts from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

import models.common.entry
from models.common.trainable import Trainable
from pipeline.config import recipe_file
from pipeline.config.recipe_file import Recipe
from pipeline.datasets.schema import Pair, of_split
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.scoring.tokenizer import TOKENIZERS
from pipeline.text import vocabularies
from pipeline.text.vocabularies import Vocabulary
from pipeline.training.class_pairs import ClassItems
from pipeline.training.sampling import Draws, Sampler
from pipeline.training.task_sampling import TaskSampler
from pipeline.training.validation import CIDER, COLUMNS, RetrievalValidation, TaskValidation, Validation
from pipeline.weights import first_weights, trained_model

Keep = Literal["earlier", "later", "last"]


@dataclass(frozen=True)
class Beside:
    """What a phase before captioning learns from beside the pairs, and what it follows."""

    negatives: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of pairs, for the task fda
    classes: Mapping[str, ClassItems] = field(default_factory=dict)  # by split, for the task class_pairs
    keys: tuple[str, ...] = ()  # which they are
    weights: Path | None = None  # the folder that the phase before this one wrote
    curves: Path | None = None  # its learning curves, kept beside this one's


NOTHING = Beside()


@dataclass(frozen=True)
class Phase:
    """One phase of a recipe."""

    settings: dict[str, Any]  # params.DatasetTrain, or params.PhaseSettings
    make: Callable[[tuple[int, int, int], Vocabulary], Trainable]  # from an image's shape
    validation: Callable[
        [Sequence[Pair], FeatureStore, Vocabulary], Callable[[Any], float | dict[str, float]]
    ]
    metric: str  # what the validation gives, or which of several
    keep: Keep  # the best snapshot, and which of equal ones | the last
    cut: Callable[[Vocabulary], Vocabulary]  # how far captions go
    by_sentence: bool = False  # an item is a sentence with its pair, not a scene
    keys: tuple[str, ...] = ()  # what else than the recipe decides its results
    weights: Mapping[str, float] | None = None  # of losses; None: 1 each
    tasks: tuple[str, ...] = ()  # of which an iteration has one
    beside: Beside = NOTHING
    log_every: int = 10  # iterations whose mean losses make one row of the learning curve

    def weight(self, term: str) -> float | None:
        """That of a loss term; None where it has none."""
        return 1.0 if self.weights is None else self.weights.get(term)

    def sampler(self, pairs: Sequence[Pair], seed: int) -> Draws:
        """What draws the batches, of the train split."""
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
    """The captioning, from the weights in that folder where the model has a phase before.

    `tokens`: the tokeniser of its validation.
    """
    settings = recipe.train
    if recipe.adapt and first is None:
        raise InputError(
            f"{recipe.model} learns something before it captions; "
            "name by --start-from the folder that holds what `pretrain` wrote"
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


def before(recipe: Recipe, declared: models.common.entry.EarlierPhase, beside: Beside = NOTHING) -> Phase:
    """A phase before captioning, as the model declares it."""
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
        log_every=50,  # a task has its share of them
    )


def bare(recipe: Recipe, declared: models.common.entry.EarlierPhase) -> Trainable:
    """The model of a phase, names and shapes only."""
    pool = recipe.sizes.get("pool", 1)
    with torch.device("meta"):
        built: Trainable = recipe_file.build(
            recipe, recipe.sizes_for((8, 2 * pool, 2 * pool), 8, 8), phase=declared.settings
        )
    return built


def _cutting(
    recipe: Recipe, settings: Mapping[str, Any], whole: bool = False
) -> Callable[[Vocabulary], Vocabulary]:
    """How far a phase's captions go: to its max_tokens, where it names them.

    Further than the longest training caption only where the model fills them up, or with `whole`.
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
    """A phase's model, with the weights that it starts from, in 16 bits where the phase says so."""
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
    """The hash of the file of weights that a phase starts from, if it does."""
    return (first_weights.identity(Path(settings["start"])),) if "start" in settings else ()
