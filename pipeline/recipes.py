"""A recipe: everything that decides how one model is trained on one dataset, and nothing else.

Training depends on recipes, not on params.yaml: nulls are resolved to the dataset's published
values, loss weights of terms that the model does not have are left out, and the source files
that the model is made of stand in it by hash (resolving.py). So `-S loss.lambda_cbr=0.004`
retrains the models that have the term and leaves the others cached, and a new model file
retrains nothing.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

import models
from models.captioner import Captioner, Sizes
from pipeline.errors import InputError
from pipeline.outputs import read_text, write_text


@dataclass(frozen=True)
class Recipe:
    """How to train one model on one dataset."""

    dataset: str
    model: str
    settings: dict[str, Any]  # the model's own
    sizes: dict[str, int]  # width, heads, layers, decoder_layers, word_width
    loss: dict[str, float]  # weight of each of the model's terms beside the caption's
    train: dict[str, Any]  # params.DatasetTrain: iterations, batch, ...
    features: dict[str, Any]  # what the store must hold
    code: dict[str, str]  # model source file -> sha256

    def sizes_for(self, shape: tuple[int, int, int], vocabulary: int, longest: int) -> Sizes:
        """The model's sizes on features C x H x W and a vocabulary."""
        return Sizes(shape[0], shape[1:], vocabulary, longest, **self.sizes)


def build(recipe: Recipe, sizes: Sizes) -> Captioner:
    """The recipe's model. Raises InputError for a name or setting that no model has."""
    try:
        return models.build(recipe.model, sizes, recipe.settings)
    except ValueError as error:
        raise InputError(f"params.yaml: {error}") from None


def save(path: str | Path, recipe: Recipe) -> None:
    """Write the recipe as YAML."""
    write_text(path, yaml.safe_dump(asdict(recipe), sort_keys=False))


def load(path: str | Path) -> Recipe:
    """Read what `save` wrote."""
    try:
        return Recipe(**yaml.safe_load(read_text(path, "run `dvc repro recipe` to make it")))
    except (yaml.YAMLError, TypeError) as error:
        raise InputError(f"{path} is not a recipe ({error}); run `dvc repro recipe` to make it") from None
