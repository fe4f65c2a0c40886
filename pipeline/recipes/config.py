"""params.yaml -> the recipe of one model on one dataset."""

from dataclasses import asdict
from typing import Any

import torch

import models
from pipeline import params, source_code
from pipeline.dataset_params import Dataset, Phase
from pipeline.errors import InputError
from pipeline.features.store_contents import PIXELS, pixel_spec, spec
from pipeline.recipes import pretraining_tasks
from pipeline.recipes.recipe_file import Recipe, build


def resolve(everything: params.Params, dataset: str, model: str) -> Recipe:
    """The recipe of one model on one dataset. Raises InputError for settings that make no model."""
    if model not in everything.model:
        known = ", ".join(everything.model)
        raise InputError(f"unknown model {model!r}; params.yaml has {known} under 'model'")
    of_dataset = everything.of(dataset)
    overrides = {k: v for k, v in everything.train.model_dump().items() if v is not None}
    sizes, train, adapt = _phases(of_dataset, dataset, model)
    settings = _settings(everything, of_dataset, model)
    read = models.input_of(model, settings)
    recipe = Recipe(
        dataset=dataset,
        model=model,
        settings=settings,
        sizes=sizes,
        loss={},
        train=train | overrides,
        features=asdict((pixel_spec if read == PIXELS else spec)(everything.features, of_dataset)),
        code=code_of(model),
        adapt=adapt,
    )
    _check_augmentation(recipe)
    _check_lengths(recipe)
    shape = (3, *of_dataset.features.pixels) if read == PIXELS else (16, 14, 14)
    with torch.device("meta"):  # names and shapes only
        terms = build(recipe, recipe.sizes_for(shape, 8, 8)).terms
    loss = {
        term: _weight(everything, of_dataset, f"lambda_{term}", dataset) for term in terms if term != "cap"
    }
    if models.FIRST_STAGE.get(model) == "pretrain":
        key, words = f"dataset.{dataset}.own.{models.OWN[model]}", everything.text.tokeniser == "words"
        adapt = pretraining_tasks.resolved(recipe, of_dataset, key, shape, words)
    return Recipe(**(asdict(recipe) | {"loss": loss, "adapt": adapt}))


def _phases(
    of_dataset: Dataset, dataset: str, model: str
) -> tuple[dict[str, int], dict[str, Any], dict[str, Any]]:
    """The model's sizes, its captioning's settings, and those of the phase before, if it has one."""
    if model not in models.OWN:
        return of_dataset.sizes.model_dump(), of_dataset.train.model_dump(), {}
    key = models.OWN[model]
    if key not in of_dataset.own:
        raise InputError(
            f"params.yaml: dataset.{dataset}.own.{key} is missing, the settings of {model}; add it"
        )
    own = of_dataset.own[key]
    start = {} if own.start is None else {"start": own.start}  # of the model's first phase
    if model not in models.FIRST_PHASE:
        return own.sizes, own.train.model_dump() | start, {}
    stage = models.FIRST_STAGE[model]
    first: Phase | None = getattr(own, stage)
    if first is None:
        raise InputError(f"params.yaml: dataset.{dataset}.own.{key}.{stage} is missing; add it")
    return own.sizes, own.train.model_dump(), first.model_dump() | start


def _settings(everything: params.Params, of_dataset: Dataset, model: str) -> dict[str, Any]:
    """The model's own settings: null ones are the dataset's, and so are switches that it does not name."""
    own = of_dataset.own.get(models.OWN.get(model, ""))
    values = own.settings if own else of_dataset.settings
    found = everything.model[model]
    settings = {key: values.get(key) if value is None else value for key, value in found.items()}
    if "switches" in values and isinstance(found.get("switches"), dict):
        settings["switches"] = values["switches"] | found["switches"]
    return settings


def _check_augmentation(recipe: Recipe) -> None:
    """Raises InputError where features would be mirrored or shifted as if they were pixels."""
    for phase in (recipe.adapt, recipe.train):
        if recipe.input == models.GRID and (phase.get("mirror") or phase.get("shift")):
            raise InputError(
                f"params.yaml: {recipe.model} reads features on {recipe.dataset}, and mirror and shift move "
                "pixels; set mirror: false and shift: 0"
            )


def _check_lengths(recipe: Recipe) -> None:
    """Raises InputError where a phase of a model other than IDC-PCL's names the length of its captions."""
    named = any(phase.get("max_tokens") is not None for phase in (recipe.adapt, recipe.train))
    if named and recipe.model not in models.PCLS:
        raise InputError(
            f"params.yaml: max_tokens of a phase is IDC-PCL's, and {recipe.model} on {recipe.dataset} has "
            f"it; set dataset.{recipe.dataset}.text.max_tokens instead"
        )


def _weight(everything: params.Params, dataset: Dataset, key: str, name: str) -> float:
    override = everything.loss.get(key)
    if override is not None:
        return override
    if key not in dataset.loss:
        raise InputError(f"params.yaml: dataset.{name}.loss.{key} is missing; add it, or set loss.{key}")
    return dataset.loss[key]


def code_of(model: str) -> dict[str, str]:
    """The files in models/ that the model is made of, by import, with their sha256."""
    if model not in models.MODELS:
        raise InputError(f"unknown model {model!r}; models/__init__.py has {', '.join(models.MODELS)}")
    return source_code.of_class(models.MODELS[model])
