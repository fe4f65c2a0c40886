"""The phases that the one loop trains: what an item is, how a snapshot is chosen, what it starts from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch

from models import FIRST_STAGE, FirstPhase, Model
from models.clip4idc import halve
from models.idc_pcl_pretraining import Pretraining
from models.idc_pcl_variants import PclSwitches
from pipeline import vocabularies
from pipeline.datasets.schema import Pair, of_split
from pipeline.errors import InputError
from pipeline.features.store import FeatureStore
from pipeline.recipes import clip_start, recipe_file, trained_model
from pipeline.recipes.recipe_file import Recipe
from pipeline.scoring.tokenizer import TOKENIZERS
from pipeline.training.class_pairs import ClassItems
from pipeline.training.sampling import Draws, Sampler
from pipeline.training.task_sampling import TaskSampler
from pipeline.training.validation import CIDER, COLUMNS, RetrievalValidation, TaskValidation, Validation
from pipeline.vocabularies import Vocabulary

Trained = TypeVar("Trained", bound=Model)
Keep = Literal["earlier", "later", "last"]
PROGRAMS_MARKS = 3  # of a caption in IDC-PCL's program: both, and a place for [CLS]


@dataclass(frozen=True)
class Phase:
    """One phase of a recipe."""

    settings: dict[str, Any]  # params.DatasetTrain, or params.Phase
    make: Callable[[tuple[int, int, int], Vocabulary], Model]  # from an image's shape
    validation: Callable[
        [Sequence[Pair], FeatureStore, Vocabulary], Callable[[Any], float | dict[str, float]]
    ]
    metric: str  # what the validation gives, or which of several
    keep: Keep  # the best snapshot, and which of equal ones | the last
    by_sentence: bool  # an item is a sentence with its pair, not a scene
    keys: tuple[str, ...] = ()  # what else than the recipe decides its results
    weights: Mapping[str, float] | None = None  # of losses; None: 1 each
    tasks: tuple[str, ...] = ()  # of which an iteration has one
    negatives: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of pairs, for the task fda
    classes: Mapping[str, ClassItems] = field(default_factory=dict)  # by split, for the task class_pairs
    cut: Callable[[Vocabulary], Vocabulary] = lambda vocabulary: vocabulary  # how far captions go
    earlier: Path | None = None  # the curves of the phase before, kept beside its own
    zero_idle: bool = False  # what a step does not use gets zero gradients
    log_every: int = 10  # iterations whose mean losses make one row of the learning curve

    def weight(self, term: str) -> float | None:
        """That of a loss term; None where it has none."""
        return 1.0 if self.weights is None else self.weights.get(term)

    def sampler(self, pairs: Sequence[Pair], seed: int) -> Draws:
        """What draws the batches, of the train split."""
        own, settings = of_split(pairs, "train"), self.settings
        if self.tasks:
            return TaskSampler(own, settings, self.tasks, seed, self.negatives, self.classes.get("train"))
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


def folder(recipe: Recipe) -> str:
    """Where in a cell's start the weights of the phase before stand: adapted, pretrained."""
    return f"{FIRST_STAGE[recipe.model]}ed"


def captioning(recipe: Recipe, first: Path | None, tokens: str = "ptb") -> Phase:
    """The captioning, from the weights in that folder where the model has a phase before.

    `tokens`: the tokeniser of its validation.
    """

    def make(shape: tuple[int, int, int], vocabulary: Vocabulary) -> Model:
        sizes = recipe.sizes_for(shape, len(vocabulary), vocabulary.longest)
        model = recipe_file.build(recipe, sizes)
        if recipe.adapt and first is not None:
            trained_model.take_over(model, first, recipe.model)
        return started(model, recipe.train)

    if recipe.adapt and first is None:
        stage = FIRST_STAGE[recipe.model]
        raise InputError(
            f"{recipe.model} is {stage}ed first; name by --start the folder that holds what `{stage}` wrote"
        )
    select = recipe.train.get("select", CIDER)
    validation = partial(Validation, tokenize=TOKENIZERS[tokens], select=select)
    keys = (tokens, *weights_of(recipe.train))
    keep: Keep = "last" if select == "last" else recipe.train.get("keep") or "earlier"
    metric, cut = COLUMNS.get(select, select), cutting(recipe, recipe.train)
    weights = {"cap": 1.0} | recipe.loss
    return Phase(recipe.train, make, validation, metric, keep, False, keys, weights, cut=cut)


def adaptation(recipe: Recipe) -> Phase:
    """The phase before, where sentences find their pairs. Raises InputError where the model has none."""
    check(recipe, "adapt")
    keys = weights_of(recipe.adapt)
    make = partial(make_first, recipe)
    keep: Keep = recipe.adapt.get("keep") or "later"
    return Phase(recipe.adapt, make, RetrievalValidation, "R@1", keep, by_sentence=True, keys=keys)


def pretraining(
    recipe: Recipe,
    negatives: Mapping[str, Sequence[str]],
    keys: tuple[str, ...] = (),
    classes: Mapping[str, ClassItems] | None = None,
    first: Path | None = None,
    earlier: Path | None = None,
) -> Phase:
    """The phase before, of several tasks. Raises InputError where the model has none.

    `negatives` of each pair of train and val, where a task asks for them; `classes`: NABirds' pairs of both,
    where a task does; `keys` say which they are. `first`, `earlier`: the folders of the weights and of the
    curves that the phase on single images left, where the recipe has it.
    """
    check(recipe, "pretrain")

    def make(shape: tuple[int, int, int], vocabulary: Vocabulary) -> Model:
        model = make_first(recipe, shape, vocabulary)
        if first is not None:
            assert isinstance(model, Pretraining)
            trained_model.take_over(model, first, recipe.model)
        return model

    phase = _of_tasks(bare(recipe), recipe.adapt, make, negatives, keys, classes or {})
    return replace(phase, earlier=earlier, cut=cutting(recipe, recipe.adapt))


def image_pretraining(
    recipe: Recipe, negatives: Mapping[str, Sequence[str]], keys: tuple[str, ...] = ()
) -> Phase:
    """The phase before that, on single images with captions."""
    settings = recipe.adapt["images"]
    make = partial(make_first, recipe, images=True)
    phase = _of_tasks(bare(recipe, images=True), settings, make, negatives, keys, {})
    marks = PROGRAMS_MARKS if given_length(recipe) else 2
    return replace(phase, cut=partial(vocabularies.cut, longest=settings["max_tokens"], marks=marks))


def given_length(recipe: Recipe) -> bool:
    """Whether captions are of its phases' max_tokens, and not of the longest training caption's length."""
    switches = recipe_file.switches_of(recipe)
    return isinstance(switches, PclSwitches) and switches.length == "max_tokens"


def cutting(recipe: Recipe, settings: Mapping[str, Any]) -> Callable[[Vocabulary], Vocabulary]:
    """How far a phase's captions go: to its max_tokens, where it names them; further only in `released`."""
    given, longest = given_length(recipe), settings.get("max_tokens")

    def cut(vocabulary: Vocabulary) -> Vocabulary:
        if longest is None:
            return vocabulary
        if given:
            return vocabularies.cut(vocabulary, longest, PROGRAMS_MARKS)
        return vocabularies.cut(vocabulary, min(longest, vocabulary.longest))

    return cut


def _of_tasks(
    model: Pretraining,
    settings: dict[str, Any],
    make: Callable[[tuple[int, int, int], Vocabulary], Model],
    negatives: Mapping[str, Sequence[str]],
    keys: tuple[str, ...],
    classes: Mapping[str, ClassItems],
) -> Phase:
    tasks = model.terms
    validation = partial(TaskValidation, tasks=tasks, negatives=negatives, classes=classes.get("val"))
    return Phase(
        settings,
        make,
        validation,
        model.measures[0],
        "last",
        by_sentence=True,
        keys=keys,
        tasks=tasks,
        negatives=negatives,
        classes=classes,
        zero_idle=model.switches.idle_gradients == "zero",
        log_every=50,  # a task has its share of them
    )


def tasks_of(recipe: Recipe) -> tuple[str, ...]:
    """The tasks that its pre-training has."""
    return bare(recipe).terms


def bare(recipe: Recipe, images: bool = False) -> Pretraining:
    """The pre-training model, names and shapes only."""
    pool = recipe.sizes["pool"]
    with torch.device("meta"):
        sizes = recipe.sizes_for((8, 2 * pool, 2 * pool), 8, 8)
        model = recipe_file.build_first_phase(recipe, sizes, images=images)
    assert isinstance(model, Pretraining)  # `check` has seen to it
    return model


def make_first(
    recipe: Recipe, shape: tuple[int, int, int], vocabulary: Vocabulary, images: bool = False
) -> FirstPhase:
    """The model of the phase before captioning, or of what comes before that on single images."""
    sizes = recipe.sizes_for(shape, len(vocabulary), vocabulary.longest)
    return started(recipe_file.build_first_phase(recipe, sizes, images=images), recipe.adapt)


def check(recipe: Recipe, stage: str) -> None:
    """Raises InputError where the model's phase before captioning is not that stage's."""
    if not recipe.adapt or FIRST_STAGE.get(recipe.model) != stage:
        raise InputError(f"{recipe.model} has no phase before captioning; take it from `{stage}ed`")


def started(model: Trained, settings: dict[str, Any]) -> Trained:
    """The model with CLIP's weights, where the phase names them; in 16 bits, where it says so."""
    if "start" in settings:
        clip_start.take_over(model, Path(settings["start"]))
    if settings.get("half_weights"):
        halve(model)
    return model


def weights_of(settings: dict[str, Any]) -> tuple[str, ...]:
    """The hash of CLIP's weights that a phase starts from, if it does."""
    return (clip_start.identity(Path(settings["start"])),) if "start" in settings else ()
