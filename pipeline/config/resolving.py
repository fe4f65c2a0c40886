"""Compute the recipe of a model on a dataset from params.yaml."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch

import models
import models.common.entry
from pipeline.config import params
from pipeline.config.dataset_params import SELECT, WITH_SCENES, Dataset, OwnSettings, Pretrain
from pipeline.config.recipe_file import Recipe, build, switches_of
from pipeline.config.store_contents import PIXELS, pixel_spec, spec
from pipeline.io import source_code
from pipeline.io.errors import InputError


def resolve(everything: params.Params, dataset: str, model: str) -> Recipe:
    """Return the recipe of one model on one dataset. Raises InputError for invalid settings."""
    if model not in everything.model:
        known = ", ".join(everything.model)
        raise InputError(f"unknown model {model!r}; params.yaml has {known} under 'model'")
    entry, of_dataset = entry_of(model), everything.of(dataset)
    own = _own(entry, of_dataset, dataset, model)
    sizes, train, adapt = _phases(entry, of_dataset, own, f"dataset.{dataset}.own.{entry.own}")
    stated = _stated(everything.model[model], of_dataset.model.get(model, {}))
    settings = _settings(stated, own.settings if own else of_dataset.settings, entry)
    read = entry.reads(switches_of(model, dataset, settings))
    recipe = Recipe(
        dataset=dataset,
        model=model,
        settings=settings,
        sizes=sizes,
        loss={},
        train=train | everything.train.decides | everything.reinforce.decides,
        features=asdict((pixel_spec if read == PIXELS else spec)(everything.features, of_dataset)),
        code=code_of(model),
        adapt=adapt,
    )
    _check_select(recipe, everything, of_dataset)
    _check_reward(recipe, everything, of_dataset)
    _check_augmentation(recipe)
    _check_lengths(recipe)
    shape = (3, *of_dataset.features.pixels) if read == PIXELS else (16, 14, 14)
    terms = _bare(recipe, shape, None).terms
    loss = {term: _weight(everything, of_dataset, term, recipe) for term in terms if term != "cap"}
    if own and any(phase.learns == "tasks" for phase in recipe.before):
        adapt = _tasks(recipe, own, shape)
        if "images" in adapt and everything.text.tokeniser == "words":
            _check_words(of_dataset, dataset)
    return Recipe(**(asdict(recipe) | {"loss": loss, "adapt": adapt}))


def entry_of(model: str) -> models.common.entry.Entry:
    """Return the model's entry. Raises InputError if no model has that name."""
    try:
        return models.entry_of(model)
    except ValueError as error:
        raise InputError(str(error)) from None


def code_of(model: str) -> dict[str, str]:
    """Return file -> SHA-256 for the files in models/ that the model directly or indirectly imports."""
    return source_code.of_class(entry_of(model).build)


def _own(
    entry: models.common.entry.Entry, of_dataset: Dataset, dataset: str, model: str
) -> OwnSettings | None:
    """Return the entry in the dataset's `own` that the model needs; None if the model needs no entry.

    Raises InputError if the entry is missing.
    """
    if entry.own is not None and entry.own not in of_dataset.own:
        key = f"dataset.{dataset}.own.{entry.own}"
        raise InputError(f"params.yaml: {key} is missing, which has the settings of {model}; add it")
    return None if entry.own is None else of_dataset.own[entry.own]


def _phases(
    entry: models.common.entry.Entry, of_dataset: Dataset, own: OwnSettings | None, key: str
) -> tuple[dict[str, int], dict[str, Any], dict[str, Any]]:
    """Return (sizes, settings of captioning, settings of the last pre-training phase) of a model.

    The third is empty if the model has no pre-training.
    """
    if own is None:
        return of_dataset.sizes.model_dump(), of_dataset.train.model_dump(), {}
    start = {} if own.start is None else {"start": own.start}  # for the model's first phase
    if not entry.phases:
        return own.sizes, own.train.model_dump() | start, {}
    name = entry.phases[-1].settings
    if (last := getattr(own, name)) is None:
        raise InputError(f"params.yaml: {key}.{name} is missing; add it")
    return own.sizes, own.train.model_dump(), last.model_dump() | start


def _stated(found: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's global settings, `found`, overridden by the dataset's, `here`.

    Each switch is overridden separately.
    """
    stated = {**found, **here}
    everywhere, own = found.get("switches"), here.get("switches")
    if isinstance(everywhere, dict) and isinstance(own, dict):
        stated["switches"] = everywhere | own
    return stated


def _settings(
    found: Mapping[str, Any], values: Mapping[str, Any], entry: models.common.entry.Entry
) -> dict[str, Any]:
    """Return the model's settings, `found`; the dataset's `values` replace nulls and missing switches."""
    settings = {key: values.get(key) if value is None else value for key, value in found.items()}
    if "switches" in values and isinstance(found.get("switches"), dict):
        shared = {name: value for name, value in values["switches"].items() if name in entry.switches}
        settings["switches"] = shared | found["switches"]
    return settings


def _bare(recipe: Recipe, shape: tuple[int, int, int], phase: str | None) -> Any:
    """Build the model of a phase (None: captioning) on the meta device, where tensors have no values."""
    with torch.device("meta"):
        return build(recipe, recipe.sizes_for(shape, 8, 8), phase=phase)


def _tasks(recipe: Recipe, own: OwnSettings, shape: tuple[int, int, int]) -> dict[str, Any]:
    """Return the settings of the last pre-training phase, with the tasks that the switches select.

    If there is an earlier phase, its settings are an entry in the result. Raises InputError if a key is
    missing; the message names the key.
    """
    key, found = f"dataset.{recipe.dataset}.own.{recipe.entry.own}", recipe.adapt
    for phase in reversed(recipe.entry.phases_of(switches_of(recipe.model, recipe.dataset, recipe.settings))):
        settings: Pretrain | None = getattr(own, phase.settings)
        if settings is None:
            raise InputError(
                f"params.yaml: {key}.{phase.settings} is missing, for pre-training on {phase.dataset}; add it"
            )
        terms = _bare(recipe, shape, phase.settings).terms
        tasks = {"tasks": _weights(settings, terms, f"{key}.{phase.settings}")}
        last = phase == recipe.entry.phases[-1]
        found |= tasks if last else {phase.settings: settings.model_dump() | tasks}
    return found


def _weights(phase: Pretrain, terms: tuple[str, ...], key: str) -> dict[str, float]:
    weights: dict[str, float] = dict(phase.tasks.items())
    if missing := [task for task in terms if task not in weights]:
        raise InputError(f"params.yaml: {key}.tasks.{missing[0]} is missing, the task's weight; add it")
    return {task: weights[task] for task in terms}


def _check_words(of_dataset: Dataset, dataset: str) -> None:
    """Raise InputError if the vocabulary lacks the words of CUB's captions."""
    if of_dataset.text.vocabulary is None and of_dataset.text.counted_with != "cub":
        raise InputError(
            "params.yaml: extra_data contains cub, and the vocabulary lacks CUB's words; "
            f"set dataset.{dataset}.text.counted_with: cub"
        )


def _check_select(recipe: Recipe, everything: params.Params, of_dataset: Dataset) -> None:
    """Raise InputError if snapshots are chosen by truth but the dataset's reader provides no scenes."""
    reader = of_dataset.prepare.reader
    if recipe.train["select"] != "truth" or reader in WITH_SCENES:
        return
    own = f".own.{recipe.entry.own}" if recipe.entry.own else ""
    key = "train" if everything.train.select else f"dataset.{recipe.dataset}{own}.train"
    raise InputError(
        f"params.yaml: {recipe.model} on {recipe.dataset} has select: truth, which needs scenes, and "
        f"the reader {reader} gives none; set {key}.select: {SELECT}"
    )


def _check_reward(recipe: Recipe, everything: params.Params, of_dataset: Dataset) -> None:
    """Raise InputError if the dataset lacks the scenes or the grammar that the reward needs."""
    reader, grammar = of_dataset.prepare.reader, everything.negatives.grammar.get(recipe.dataset)
    fits = {"truth": reader in WITH_SCENES, "agrees": grammar == "geometric"}
    reward = everything.reinforce.reward
    if reward is not None and not fits.get(reward, True):
        needs = "scenes" if reward == "truth" else f"negatives.grammar.{recipe.dataset}: geometric"
        raise InputError(
            f"params.yaml: reinforce.reward: {reward} needs {needs}, which {recipe.dataset} lacks; "
            f"set it to CIDEr-D"
        )


def _check_augmentation(recipe: Recipe) -> None:
    """Raise InputError if `mirror` or `shift` is set for a model whose input is features, not pixels."""
    for phase in (recipe.adapt, recipe.train):
        if recipe.input == models.GRID and (phase.get("mirror") or phase.get("shift")):
            raise InputError(
                f"params.yaml: {recipe.model} reads features on {recipe.dataset}, but mirror and shift "
                "need pixels; set mirror: false and shift: 0"
            )


def _check_lengths(recipe: Recipe) -> None:
    """Raise InputError if a phase sets max_tokens but the model does not use this setting."""
    named = any(phase.get("max_tokens") is not None for phase in (recipe.adapt, recipe.train))
    if named and recipe.entry.fills is None:
        raise InputError(
            f"params.yaml: {recipe.model} on {recipe.dataset} has max_tokens in a phase, which it does not "
            f"read; set dataset.{recipe.dataset}.text.max_tokens instead"
        )


def _weight(everything: params.Params, dataset: Dataset, term: str, recipe: Recipe) -> float:
    """Return a loss weight: the global value, else the dataset's, else the model's default."""
    key = f"lambda_{term}"
    for found in (everything.loss.get(key), dataset.loss.get(key), recipe.entry.loss.get(term)):
        if found is not None:
            return found
    where = f"dataset.{recipe.dataset}.loss.{key}"
    raise InputError(
        f"params.yaml: {where} is missing; add it, set loss.{key}, or give the Entry of "
        f"{recipe.model} a weight: loss={{{term!r}: 1.0}}"
    )
