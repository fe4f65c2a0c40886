"""The phases that the one loop trains: what an item is, how a snapshot is chosen, what it starts from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from models import Model
from models.clip4idc import halve
from pipeline.datasets.schema import Pair, of_split
from pipeline.errors import InputError
from pipeline.features.store import FeatureStore
from pipeline.recipes import clip_start, recipe_file, trained_model
from pipeline.recipes.recipe_file import Recipe
from pipeline.scoring.tokenizer import TOKENIZERS
from pipeline.training.sampling import Sampler
from pipeline.training.validation import RetrievalValidation, Validation
from pipeline.vocabularies import Vocabulary


@dataclass(frozen=True)
class Phase:
    """One phase of a recipe."""

    settings: dict[str, Any]  # params.DatasetTrain, or params.Phase
    make: Callable[[tuple[int, int, int], Vocabulary], Model]  # from an image's shape
    validation: Callable[[Sequence[Pair], FeatureStore, Vocabulary], Callable[[Any], float]]
    metric: str  # what the validation gives
    later: bool  # of equal snapshots the later one is kept
    by_sentence: bool  # an item is a sentence with its pair, not a scene
    keys: tuple[str, ...] = ()  # what else than the recipe decides its results

    def sampler(self, pairs: Sequence[Pair], seed: int) -> Sampler:
        """What draws the batches, of the train split."""
        own, settings = of_split(pairs, "train"), self.settings
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


def captioning(recipe: Recipe, adapted: Path | None, tokens: str = "ptb") -> Phase:
    """The captioning, from the adapted weights in that folder where the model is adapted first.

    `tokens`: the tokeniser of its validation.
    """

    def make(shape: tuple[int, int, int], vocabulary: Vocabulary) -> Model:
        sizes = recipe.sizes_for(shape, len(vocabulary), vocabulary.longest)
        model = recipe_file.build(recipe, sizes)
        if recipe.adapt and adapted is not None:
            trained_model.take_over(model, adapted)
        return started(model, recipe.train)

    if recipe.adapt and adapted is None:
        raise InputError(
            f"{recipe.model} is adapted first; name by --start the folder that holds what `adapt` wrote"
        )
    validation = partial(Validation, tokenize=TOKENIZERS[tokens])
    keys = (tokens, *weights_of(recipe.train))
    return Phase(recipe.train, make, validation, "CIDEr-D", later=False, by_sentence=False, keys=keys)


def adaptation(recipe: Recipe) -> Phase:
    """The phase before. Raises InputError where the model has none."""

    def make(shape: tuple[int, int, int], vocabulary: Vocabulary) -> Model:
        sizes = recipe.sizes_for(shape, len(vocabulary), vocabulary.longest)
        return started(recipe_file.build_first_phase(recipe, sizes), recipe.adapt)

    if not recipe.adapt:
        raise InputError(f"{recipe.model} has no phase before captioning; take it from `adapted`")
    keys = weights_of(recipe.adapt)
    return Phase(recipe.adapt, make, RetrievalValidation, "R@1", later=True, by_sentence=True, keys=keys)


def started(model: Model, settings: dict[str, Any]) -> Model:
    """The model with CLIP's weights, where the phase names them; in 16 bits, where it says so."""
    if "start" in settings:
        clip_start.take_over(model, Path(settings["start"]))
    if settings.get("half_weights"):
        halve(model)
    return model


def weights_of(settings: dict[str, Any]) -> tuple[str, ...]:
    """The hash of CLIP's weights that a phase starts from, if it does."""
    return (clip_start.identity(Path(settings["start"])),) if "start" in settings else ()
