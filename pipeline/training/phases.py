"""Training phases: the pretraining phases, captioning, and the reward phase after it.

A Phase contains all that differs between phases: model, initial weights, batches, losses, validation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from models.common.entry import EarlierPhase
from models.common.trainable import Trainable
from pipeline.config import recipe_file
from pipeline.config.recipe_file import Recipe
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
class OtherInputs:
    """Inputs of a pretraining phase that are not in the recipe, such as the weights from which it starts.

    `classes` maps a split to image pairs with the class of each image (NABirds). `keys` has a hash of
    the negatives and a hash of these image pairs, if the phase uses them.
    """

    negatives: Mapping[str, Sequence[str]] = field(default_factory=dict)  # pair id -> captions, for fda
    classes: Mapping[str, ClassItems] = field(default_factory=dict)  # by split, for class_pairs
    keys: tuple[str, ...] = ()  # hashes that identify these inputs
    weights: Path | None = None  # folder that the previous phase wrote
    # learning curves of earlier phases: name of their folder, next to this phase's curves -> their folder
    curves: Mapping[str, Path] = field(default_factory=dict)


NOTHING = OtherInputs()


@dataclass(frozen=True)
class Phase:
    """A training phase of a recipe: settings, model, batches, losses and validation.

    `validation` gets the validation pairs, the features and the vocabulary. It returns a function that
    computes a model's scores. `others` are inputs that the recipe does not contain, such as the
    negatives of a pre-training phase, or learning curves of earlier phases. Captioning has none.
    """

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
    others: OtherInputs = NOTHING
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
        negatives, classes = self.others.negatives, self.others.classes.get("train")
        return TaskSampler(pairs, self.settings, self.tasks, seed, negatives, classes)


def captioning(recipe: Recipe, pretrained: Path | None, tokens: str = "ptb") -> Phase:
    """Return the captioning phase of a recipe; `pretrained`: folder of initial weights if there are any."""
    settings = recipe.train
    if recipe.adapt and pretrained is None:
        raise InputError(
            f"{recipe.model} needs pretrained weights; "
            "name with --start-from the folder that the stage `pretrain` wrote"
        )
    select = settings.get("select", CIDER)
    return Phase(
        settings,
        partial(_build, recipe, None, settings, pretrained if recipe.adapt else None),
        validation=partial(Validation, tokenize=TOKENIZERS[tokens], select=select),
        metric=COLUMNS.get(select, select),
        keep="last" if select == "last" else settings.get("keep") or "earlier",
        cut=_caption_limiter(recipe, settings),
        keys=(tokens, *_start_hash(settings)),
        weights={"cap": 1.0} | recipe.loss,
    )


def reinforcing(recipe: Recipe, trained: Path, tokens: str = "ptb") -> Phase:
    """Return the reward phase of a recipe (reinforce.py), which starts from the weights in `trained`."""
    reward = recipe.train["reinforce"]
    changes = {key: reward[key] for key in ("iterations", "learning_rate", "validate_every", "references")}
    changes |= {"schedule": "cosine", "patience": None, "select_after": 0, "mirror": False, "shift": 0}
    phase = captioning(replace(recipe, adapt={}), None, tokens)
    supervised = {name: reward["cross_entropy"] * weight for name, weight in (phase.weights or {}).items()}

    def objective(pairs: Sequence[Pair], vocabulary: Vocabulary) -> SelfCritical:
        return SelfCritical(reward_of(reward, pairs, TOKENIZERS[tokens]), reward, vocabulary)

    return replace(
        phase,
        settings=recipe.train | changes,
        make=lambda shape, vocabulary: trained_model.load(trained)[0],
        weights={POLICY: 1.0} | supervised,
        objective=objective,
    )


def pretraining(recipe: Recipe, declared: EarlierPhase, others: OtherInputs = NOTHING) -> Phase:
    """Return a pretraining phase, which the model's Entry declares; `others`: inputs not in the recipe."""
    settings = recipe.settings_of(declared)
    phase = Phase(
        settings,
        partial(_build, recipe, declared, settings, others.weights),
        validation=RetrievalValidation,
        metric="R@1",
        keep=settings.get("keep") or "later",
        cut=_caption_limiter(recipe, settings, full_length=declared.dataset is not None),
        by_sentence=True,
        keys=(*others.keys, *_start_hash(settings)),
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
    """Return a pretraining phase's model without values (device "meta"), to read its attributes."""
    pool = recipe.sizes.get("pool", 1)
    built: Trainable = recipe_file.bare(recipe, (8, 2 * pool, 2 * pool), declared.settings)
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
    declared: EarlierPhase | None,
    settings: dict[str, Any],
    pretrained: Path | None,
    shape: tuple[int, int, int],
    vocabulary: Vocabulary,
) -> Trainable:
    """Build the model of a phase (`declared` is None: captioning), and load its initial weights, if any.

    They are in the folder `pretrained`, in CLIP's file settings["start"], or in the folder
    settings["fine_tune"].
    """
    sizes = recipe.sizes_for(shape, len(vocabulary), vocabulary.longest)
    model: Trainable = recipe_file.build(recipe, sizes, phase=declared.settings if declared else None)
    if pretrained is not None:
        trained_model.take_over(model, pretrained)
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
