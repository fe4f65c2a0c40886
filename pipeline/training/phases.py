"""Training phases: the pretraining phases, captioning, and the reward phase after it.

A Phase contains all that differs between phases: model, initial weights, batches, losses, validation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from torch import Tensor

from models.common.entry import EarlierPhase
from models.common.trainable import Labels, Trainable
from pipeline.config import recipe_file
from pipeline.config.recipe_file import Recipe
from pipeline.datasets.schema import Pair, of_split
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.scoring.tokenizer import TOKENIZERS
from pipeline.text.vocabularies import Vocabulary
from pipeline.training.reinforce import POLICY, SelfCritical
from pipeline.training.rewards import reward_of
from pipeline.training.sampling import Batch, Draws, Sampler
from pipeline.training.task_sampling import ClassItems, TaskSampler
from pipeline.training.validation import CIDER, COLUMNS, RetrievalValidation, TaskValidation, Validation
from pipeline.weights import first_weights, trained_model

Keep = Literal["earlier", "later", "last"]


@dataclass(frozen=True)
class OtherInputs:
    """Inputs of a pretraining phase that are not in the recipe, such as the weights from which it starts."""

    negatives: Mapping[str, Sequence[str]] = field(default_factory=dict)  # pair id -> captions, for fda
    classes: Mapping[str, ClassItems] = field(default_factory=dict)  # by split, for class_pairs
    keys: tuple[str, ...] = ()  # hashes that identify these inputs
    weights: Path | None = None  # folder that the previous phase wrote
    # learning curves of earlier phases: name of their folder, next to this phase's curves -> their folder
    curves: Mapping[str, Path] = field(default_factory=dict)


NOTHING = OtherInputs()


class Objective(Protocol):
    """Protocol of a phase's objective: losses that are minimised, and measures that are only recorded."""

    def names(self, model: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the loss terms and of the measures."""

    def __call__(
        self, model: Any, before: Tensor, after: Tensor, tokens: Tensor, batch: Batch, labels: Labels | None
    ) -> dict[str, Tensor]:
        """Return the loss terms and the measures of B pairs, as scalars by name.

        before, after: encodings of the two images of each pair, (B, N, D); N: cells or tokens; D: width
        tokens: R reference captions of each pair, (R*B, L+1), with <START> and <END>, padded with NULL
        batch, labels: batch that contains the pairs, and labels of the pairs
        """


@dataclass(frozen=True)
class Phase:
    """A training phase of a recipe."""

    settings: dict[str, Any]  # in the form of params.DatasetTrain or params.PhaseSettings
    # builds the model, given the shape of an image's features and the vocabulary
    make: Callable[[tuple[int, int, int], Vocabulary], Trainable]
    validation: Callable[
        [Sequence[Pair], FeatureStore, Vocabulary], Callable[[Any], float | dict[str, float]]
    ]
    metric: str  # validation score by which a snapshot is chosen
    # snapshot to keep: the best, and of several with equal scores the earlier | the later; or the last
    keep: Keep
    cut: Callable[[Vocabulary], Vocabulary]  # returns the vocabulary with its limit of the caption length
    by_sentence: bool = False  # True: an item of a batch is a caption with its pair; False: a scene
    keys: tuple[str, ...] = ()  # names or hashes of inputs, besides the recipe, that affect the results
    weights: Mapping[str, float] | None = None  # weights of the loss terms; None: all are 1
    tasks: tuple[str, ...] = ()  # each iteration trains one of these tasks; empty: there are no tasks
    others: OtherInputs = NOTHING
    log_every: int = 10  # number of iterations for each row of the learning curve
    # returns the losses, given the training pairs and the vocabulary; None: the losses that the model defines
    objective: Callable[[Sequence[Pair], Vocabulary], Objective] | None = None

    def sampler(self, pairs: Sequence[Pair], seed: int) -> Draws:
        """Return the phase's sampler of batches; it uses those of `pairs` that are in the train split."""
        own, settings, others = of_split(pairs, "train"), self.settings, self.others
        if self.tasks:
            return TaskSampler(own, settings, self.tasks, seed, others.negatives, others.classes.get("train"))
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

    first: folder of the pretrained weights. Raises InputError if it is None but the model has pretraining
    tokens: name of the tokeniser that the validation uses
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
    """Return the reward phase of a recipe (reinforce.py), which follows the captioning phase.

    trained: folder of the captioning weights, from which the phase starts
    tokens: name of the tokeniser that the validation and the reward CIDEr-D use
    """
    own = recipe.train["reinforce"]
    named = {name: own[name] for name in ("iterations", "learning_rate", "validate_every", "references")}
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
        make=lambda shape, vocabulary: trained_model.load(trained)[0],
        weights={POLICY: 1.0} | supervised,
        objective=objective,
    )


def before(recipe: Recipe, declared: EarlierPhase, others: OtherInputs = NOTHING) -> Phase:
    """Return a pretraining phase of a recipe; `declared` is the phase's declaration in the model's Entry."""
    settings = recipe.settings_of(declared)
    phase = Phase(
        settings,
        partial(_made, recipe, declared, settings, others.weights),
        validation=RetrievalValidation,
        metric="R@1",
        keep=settings.get("keep") or "later",
        cut=_cutting(recipe, settings, whole=declared.dataset is not None),
        by_sentence=True,
        keys=(*others.keys, *_start_of(settings)),
        others=others,
    )
    if declared.learns == "retrieval":
        return phase
    model = bare(recipe, declared)
    classes = others.classes.get("val")
    return replace(
        phase,
        validation=partial(TaskValidation, tasks=model.terms, negatives=others.negatives, classes=classes),
        metric=model.measures[0],
        keep="last",
        tasks=model.terms,
        log_every=50,  # each task gets only a share of these iterations
    )


def bare(recipe: Recipe, declared: EarlierPhase) -> Trainable:
    """Return the model of a pretraining phase, so that the caller can read its attributes.

    The model is built for a small input. Its tensors have no values (device "meta").
    """
    pool = recipe.sizes.get("pool", 1)
    built: Trainable = recipe_file.bare(recipe, (8, 2 * pool, 2 * pool), declared.settings)
    return built


def _cutting(
    recipe: Recipe, settings: Mapping[str, Any], whole: bool = False
) -> Callable[[Vocabulary], Vocabulary]:
    """Return a function that copies a vocabulary with `max_tokens`, a setting, as the limit of captions.

    The limit is not higher than that of the vocabulary, unless `whole` is True or the model pads captions
    to `max_tokens`. Without this setting, the function returns the vocabulary unchanged.
    """
    fills, longest = recipe.entry.fills, settings.get("max_tokens")
    switches = recipe_file.switches_of(recipe.model, recipe.dataset, recipe.settings)
    marks = fills(switches) if fills else 0

    def cut(vocabulary: Vocabulary) -> Vocabulary:
        if longest is None:
            return vocabulary
        furthest = longest if marks or whole else min(longest, vocabulary.longest)
        return replace(vocabulary, longest=furthest, marks=marks or 2)

    return cut


def _made(
    recipe: Recipe,
    declared: EarlierPhase | None,
    settings: dict[str, Any],
    first: Path | None,
    shape: tuple[int, int, int],
    vocabulary: Vocabulary,
) -> Trainable:
    """Build the model of the phase `declared` (None: captioning). Load weights from `first`, if not None."""
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
    return (first_weights.identity(Path(settings["start"])),) if "start" in settings else ()
