"""Training phases: pre-training, captioning, and the reward phase after it.

A Phase contains all that differs between phases: model, initial weights, batches, losses, validation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from models.common.entry import PretrainingPhase
from models.common.trainable import Trainable
from pipeline.config import recipe_file
from pipeline.config.recipe_file import REINFORCE, TRAIN, Recipe
from pipeline.datasets.schema import Pair, of_split
from pipeline.features.store import FeatureStore
from pipeline.io.content_hashes import file_hash
from pipeline.io.errors import InputError
from pipeline.scoring.tokenizer import TOKENIZERS
from pipeline.text.vocabularies import Vocabulary
from pipeline.training.reinforce import POLICY, SelfCritical, reward_of
from pipeline.training.sampling import Draws, Sampler
from pipeline.training.task_sampling import ClassItems, TaskSampler
from pipeline.training.validation import (
    CIDER,
    COLUMNS,
    RetrievalValidation,
    TaskValidation,
    Validation,
    Validator,
)
from pipeline.weights import imported_weights, trained_model

Keep = Literal["earlier", "later", "last"]


@dataclass(frozen=True)
class PhaseInputs:
    """Inputs of a phase that are not in the recipe, such as the weights from which it starts.

    `classes` maps a split to image pairs with the class of each image (NABirds). `keys` has a hash of
    the negatives and a hash of these image pairs, if the phase uses them.
    """

    start: Path | None = None  # folder of the weights that the phase before wrote; None: there is none
    tokens: str = "ptb"  # tokeniser of captions in validations and rewards
    data: Mapping[str, Any] = field(default_factory=dict)  # `pairs` and `features`, if not the dataset's
    negatives: Mapping[str, Sequence[str]] = field(default_factory=dict)  # pair id -> captions, for fda
    classes: Mapping[str, ClassItems] = field(default_factory=dict)  # by split, for class_pairs
    keys: tuple[str, ...] = ()  # hashes of `negatives` and `classes`


NOTHING = PhaseInputs()


@dataclass(frozen=True)
class Phase:
    """The last phase of a recipe: settings, model, batches, losses and validation.

    `validation` gets the validation pairs, the features and the vocabulary. It returns a function that
    computes a model's scores.
    """

    recipe: Recipe
    settings: dict[str, Any]  # in the form of params.DatasetTrain or params.PhaseSettings
    # builds the model, given the shape of an image's features and the vocabulary
    make: Callable[[tuple[int, int, int], Vocabulary], Trainable]
    validation: Callable[[Sequence[Pair], FeatureStore, Vocabulary], Validator]
    metric: str  # validation score by which a snapshot is chosen
    # snapshot to keep: the best, and of several with equal scores the earlier | the later; or the last
    keep: Keep
    cut: Callable[[Vocabulary], Vocabulary]  # returns the vocabulary with its limit of the caption length
    by_sentence: bool = False  # True: an item of a batch is a caption with its pair; False: a scene
    keys: tuple[str, ...] = ()  # names or hashes of inputs, besides the recipe, that affect the results
    weights: Mapping[str, float] | None = None  # weights of the loss terms; None: all are 1
    tasks: tuple[str, ...] = ()  # each iteration trains one of these tasks; empty: there are no tasks
    inputs: PhaseInputs = NOTHING
    log_every: int = 10  # number of iterations for each row of the learning curve
    # returns the losses, given the training pairs and the vocabulary; None: the losses that the model defines
    objective: Callable[[Sequence[Pair], Vocabulary], SelfCritical] | None = None

    def selecting_by(self, validation: Validator) -> "Phase":
        return replace(self, keep="last") if validation.constant else self

    def sampler(self, pairs: Sequence[Pair], seed: int) -> Draws:
        """Return the phase's sampler of batches; it uses those of `pairs` that are in the train split."""
        pairs = of_split(pairs, "train")
        if not self.tasks:
            return Sampler(pairs, self.settings, seed, self.by_sentence)
        negatives, classes = self.inputs.negatives, self.inputs.classes.get("train")
        return TaskSampler(pairs, self.settings, self.tasks, seed, negatives, classes)


def phase_of(recipe: Recipe, inputs: PhaseInputs = NOTHING) -> Phase:
    """Return the last phase of a recipe. If it is not the first, `inputs` must have weights to start from."""
    if (before := recipe.before(recipe.last)) and inputs.start is None:
        raise InputError(
            f"{recipe.model} needs the weights of its phase {before.last}; "
            "name with --start-from the folder that the stage `pretrain` wrote"
        )
    if recipe.declared is not None:
        return _pretraining(recipe, inputs, recipe.declared)
    return _reinforcing(recipe, inputs) if recipe.last == REINFORCE else _captioning(recipe, inputs)


def _captioning(recipe: Recipe, inputs: PhaseInputs) -> Phase:
    settings = recipe.phases[TRAIN]
    select = settings.get("select", CIDER)
    return Phase(
        recipe,
        settings,
        partial(_build, recipe, settings, inputs.start),
        validation=partial(Validation, tokenize=TOKENIZERS[inputs.tokens], select=select),
        metric=COLUMNS.get(select, select),
        keep="last" if select == "last" else settings.get("keep") or "earlier",
        cut=_caption_limiter(recipe, settings),
        keys=(inputs.tokens, *_start_hash(settings)),
        weights={"cap": 1.0} | recipe.loss,
        inputs=inputs,
    )


def _reinforcing(recipe: Recipe, inputs: PhaseInputs) -> Phase:
    """Return the reward phase (reinforce.py): as the captioning, with other losses and a new schedule."""
    assert inputs.start is not None  # phase_of checks it
    reward, phase, start = recipe.phases[REINFORCE], _captioning(recipe, inputs), inputs.start
    changes = {key: reward[key] for key in ("iterations", "learning_rate", "validate_every", "references")}
    changes |= {"schedule": "cosine", "patience": None, "select_after": 0, "mirror": False, "shift": 0}
    supervised = {name: reward["cross_entropy"] * weight for name, weight in (phase.weights or {}).items()}

    def objective(pairs: Sequence[Pair], vocabulary: Vocabulary) -> SelfCritical:
        return SelfCritical(reward_of(reward, pairs, TOKENIZERS[inputs.tokens]), reward, vocabulary)

    return replace(
        phase,
        settings=phase.settings | changes,
        make=lambda shape, vocabulary: trained_model.load(start)[0],
        weights={POLICY: 1.0} | supervised,
        objective=objective,
    )


def _pretraining(recipe: Recipe, inputs: PhaseInputs, declared: PretrainingPhase) -> Phase:
    settings = recipe.phases[declared.name]
    phase = Phase(
        recipe,
        settings,
        partial(_build, recipe, settings, inputs.start),
        validation=RetrievalValidation,
        metric="R@1",
        keep=settings.get("keep") or "later",
        cut=_caption_limiter(recipe, settings, full_length=declared.dataset is not None),
        by_sentence=True,
        keys=(*inputs.keys, *_start_hash(settings)),
        inputs=inputs,
    )
    if declared.objective == "retrieval":
        return phase
    model = bare(recipe)
    classes = inputs.classes.get("val")
    return replace(
        phase,
        validation=partial(TaskValidation, tasks=model.terms, negatives=inputs.negatives, classes=classes),
        metric=model.measures[0],
        keep="last",
        tasks=model.terms,
        log_every=50,  # each task gets only a share of these iterations
    )


def bare(recipe: Recipe) -> Trainable:
    """Return the last phase's model without values (device "meta"), to read its attributes."""
    pool = recipe.sizes.get("pool", 1)
    built: Trainable = recipe_file.bare(recipe, (8, 2 * pool, 2 * pool))
    return built


def _caption_limiter(
    recipe: Recipe, settings: Mapping[str, Any], full_length: bool = False
) -> Callable[[Vocabulary], Vocabulary]:
    """Return a function that copies a vocabulary, with captions limited to `max_tokens` tokens if set.

    The limit is also the vocabulary's own, unless `full_length` is True or the model pads captions to
    `max_tokens`.
    """
    fills, max_tokens = recipe.entry.fills, settings.get("max_tokens")
    switches = recipe_file.switches_of(recipe.model, recipe.dataset, recipe.settings)
    marks = fills(switches) if fills else 0

    def cut(vocabulary: Vocabulary) -> Vocabulary:
        if max_tokens is None:
            return vocabulary
        limit = max_tokens if marks or full_length else min(max_tokens, vocabulary.longest)
        return replace(vocabulary, longest=limit, marks=marks or 2)

    return cut


def _build(
    recipe: Recipe,
    settings: dict[str, Any],
    start: Path | None,
    shape: tuple[int, int, int],
    vocabulary: Vocabulary,
) -> Trainable:
    """Build the model of the last phase, and load its initial weights, if any.

    They are in the folder `start`, of the phase before, in CLIP's file settings["start"], or in the folder
    settings["fine_tune"].
    """
    sizes = recipe.sizes_for(shape, len(vocabulary), vocabulary.longest)
    model: Trainable = recipe_file.build(recipe, sizes)
    if start is not None:
        trained_model.take_over(model, start)
    if "start" in settings:
        imported_weights.take_over(model, Path(settings["start"]))
    if "fine_tune" in settings:
        trained_model.continue_from(model, Path(settings["fine_tune"]), vocabulary)
    if settings.get("half_weights"):
        model.halve()
    return model


def _start_hash(settings: dict[str, Any]) -> tuple[str, ...]:
    """Return the hash of the weights from a file or folder that the phase starts from, as a tuple, or ()."""
    if "fine_tune" in settings:
        return (trained_model.hash_of_start(Path(settings["fine_tune"])),)
    return (file_hash(settings["start"], imported_weights.REMEDY),) if "start" in settings else ()
