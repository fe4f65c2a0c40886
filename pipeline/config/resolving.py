"""Compute the recipe of a model on a dataset from params.yaml, and find where each setting comes from.

The origin of a setting is the file and the key that give its value. The section `stages` of params.yaml,
which lists the inputs to extract and the models to pre-train, is computed, too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import models
from models.common.entry import Entry
from pipeline.config import params
from pipeline.config.dataset_params import SELECT, WITH_SCENES, Dataset, OwnSettings, Pretrain
from pipeline.config.recipe_file import Recipe, bare, set_in, switches_of
from pipeline.config.store_contents import PIXELS, pixel_spec, spec
from pipeline.io import source_code
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml


def resolve(everything: params.Params, dataset: str, model: str) -> Recipe:
    """Return the recipe of one model on one dataset. Raises InputError for invalid settings."""
    if model not in everything.model:
        names = ", ".join(everything.model)
        raise InputError(f"unknown model {model!r}; params.yaml has {names} under 'model'")
    entry, dataset_settings = entry_of(model), everything.of(dataset)
    own = dataset_settings.own.get(entry.own) if entry.own else None
    if entry.own and own is None:
        key = f"dataset.{dataset}.own.{entry.own}"
        raise InputError(f"params.yaml: {key} is missing, which has the settings of {model}; add it")
    sizes, train, adapt = _phases(entry, dataset_settings, own, f"dataset.{dataset}.own.{entry.own}")
    if everything.train.fine_tune is not None:  # all tensors have values, so nothing is pre-trained
        train, adapt = {key: value for key, value in train.items() if key != "start"}, {}
    stated = _overridden(everything.model[model], dataset_settings.model.get(model, {}))
    settings = _completed(stated, own.settings if own else dataset_settings.settings, entry)
    read = entry.reads(switches_of(model, dataset, settings))
    try:
        recipe = Recipe(
            dataset=dataset,
            model=model,
            settings=settings,
            sizes=sizes,
            loss={},
            train=train | everything.train.decides | everything.reinforce.decides,
            features=asdict((pixel_spec if read == PIXELS else spec)(everything.features, dataset_settings)),
            code=code_of(model),
            adapt=adapt,
        )
    except ValueError as error:
        raise InputError(f"{set_in(model, dataset)}: {error}") from None
    shape = (3, *dataset_settings.features.pixels) if read == PIXELS else (16, 14, 14)
    terms = bare(recipe, shape).terms
    own_loss = own.loss if own else {}
    weights = everything.loss, own_loss, dataset_settings.loss
    loss = {term: _weight(weights, term, recipe) for term in terms if term != "cap"}
    if own and any(phase.learns == "tasks" for phase in recipe.before):
        adapt = _tasks(recipe, own, shape)
    completed = replace(recipe, loss=loss, adapt=adapt)
    _check(completed, everything, dataset_settings)
    return completed


def entry_of(model: str) -> Entry:
    try:
        return models.entry_of(model)
    except ValueError as error:
        raise InputError(str(error)) from None


def code_of(model: str) -> dict[str, str]:
    return source_code.of_model(model, entry_of(model).build)


def _phases(
    entry: Entry, dataset_settings: Dataset, own: OwnSettings | None, key: str
) -> tuple[dict[str, int], dict[str, Any], dict[str, Any]]:
    """Return a model's sizes, its settings of captioning, and its settings of the last pre-training phase.

    own: the model's own settings on the dataset; None for a model that uses the dataset's settings
    key: key of `own` in params.yaml, for error messages

    The third dictionary is {} for a model without pre-training. Raises InputError if params.yaml lacks
    the settings of the last pre-training phase.
    """
    if own is None:
        return dataset_settings.sizes, dataset_settings.train.model_dump(), {}
    start = {} if own.start is None else {"start": own.start}  # for the model's first phase
    if not entry.phases:
        return own.sizes, own.train.model_dump() | start, {}
    name = entry.phases[-1].settings
    if (last_phase := getattr(own, name)) is None:
        raise InputError(f"params.yaml: {key}.{name} is missing; add it")
    return own.sizes, own.train.model_dump(), last_phase.model_dump() | start


def _overridden(everywhere: Mapping[str, Any], on_dataset: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's global settings `everywhere`, overridden by the dataset's settings `on_dataset`.

    Switches are overridden one by one.
    """
    settings = {**everywhere, **on_dataset}
    switches, dataset_switches = everywhere.get("switches"), on_dataset.get("switches")
    if isinstance(switches, dict) and isinstance(dataset_switches, dict):
        settings["switches"] = switches | dataset_switches
    return settings


def _completed(stated: Mapping[str, Any], defaults: Mapping[str, Any], entry: Entry) -> dict[str, Any]:
    """Return `stated` with the dataset's `defaults` for nulls, and for switches that the model has."""
    settings = {key: defaults.get(key) if value is None else value for key, value in stated.items()}
    if "switches" in defaults and isinstance(stated.get("switches"), dict):
        switches = {name: value for name, value in defaults["switches"].items() if name in entry.switches}
        settings["switches"] = switches | stated["switches"]
    return settings


def _tasks(recipe: Recipe, own: OwnSettings, shape: tuple[int, int, int]) -> dict[str, Any]:
    """Return the settings of all pre-training phases, each with the weights of its tasks.

    The model's switches select the phases and the tasks. Raises InputError if the settings of a phase, or
    the weight of a task, are missing.
    """
    all_settings = dict(recipe.adapt)
    for phase in reversed(recipe.entry.phases_of(switches_of(recipe.model, recipe.dataset, recipe.settings))):
        key = f"params.yaml: dataset.{recipe.dataset}.own.{recipe.entry.own}.{phase.settings}"
        settings: Pretrain | None = getattr(own, phase.settings)
        if settings is None:
            raise InputError(f"{key} is missing, for pre-training on {phase.dataset}; add it")
        weights: dict[str, float] = dict(settings.tasks.items())
        terms = bare(recipe, shape, phase.settings).terms
        if missing := [task for task in terms if task not in weights]:
            raise InputError(f"{key}.tasks.{missing[0]} is missing, the task's weight; add it")
        tasks = {"tasks": {task: weights[task] for task in terms}}
        last = phase == recipe.entry.phases[-1]
        all_settings |= tasks if last else {phase.settings: settings.model_dump() | tasks}
    return all_settings


def _check(recipe: Recipe, everything: params.Params, dataset_settings: Dataset) -> None:
    """Raise InputError if a setting needs something that the dataset or the model lacks."""
    dataset, model, text = recipe.dataset, recipe.model, dataset_settings.text
    reader, reward = dataset_settings.prepare.reader, everything.reinforce.reward
    own = f".own.{recipe.entry.own}" if recipe.entry.own else ""
    key = "train" if everything.train.select else f"dataset.{dataset}{own}.train"
    phases = (recipe.adapt, recipe.train)
    faults = (
        (
            recipe.train["select"] == "truth" and reader not in WITH_SCENES,
            f"{model} on {dataset} has select: truth, which needs scenes, and the reader {reader} gives "
            f"none; set {key}.select: {SELECT}",
        ),
        (
            reward == "truth" and reader not in WITH_SCENES,
            f"reinforce.reward: truth needs scenes, which {dataset} lacks; set it to CIDEr-D",
        ),
        (
            reward == "agrees" and everything.negatives.grammar.get(dataset) != "geometric",
            f"reinforce.reward: agrees needs negatives.grammar.{dataset}: geometric; set it to CIDEr-D",
        ),
        (
            recipe.input == models.GRID and any(p.get("mirror") or p.get("shift") for p in phases),
            f"{model} reads features on {dataset}, but mirror and shift need pixels; set mirror: false and "
            "shift: 0",
        ),
        (
            recipe.entry.fills is None and any(p.get("max_tokens") is not None for p in phases),
            f"{model} on {dataset} has max_tokens in a phase, which it does not read; set "
            f"dataset.{dataset}.text.max_tokens instead",
        ),
        (
            "images" in recipe.adapt
            and everything.text.tokeniser == "words"
            and text.vocabulary is None
            and text.counted_with != "cub",
            "extra_data contains cub, and the vocabulary lacks CUB's words; "
            f"set dataset.{dataset}.text.counted_with: cub",
        ),
    )
    for applies, message in faults:
        if applies:
            raise InputError(f"params.yaml: {message}")


def _weight(sections: Sequence[Mapping[str, float | None]], term: str, recipe: Recipe) -> float:
    """Return the weight of a loss term: of the first of `sections` that has it, else the model's.

    The sections are `loss` of params.yaml, of the model's own settings on the dataset, and of the dataset.
    """
    key = f"lambda_{term}"
    for weight in (*(section.get(key) for section in sections), recipe.entry.loss.get(term)):
        if weight is not None:
            return weight
    missing_key = f"dataset.{recipe.dataset}.loss.{key}"
    raise InputError(
        f"params.yaml: {missing_key} is missing; add it, set loss.{key}, or give the Entry of "
        f"{recipe.model} a weight: loss={{{term!r}: 1.0}}"
    )


def stage_lists(recipes: Iterable[Recipe]) -> dict[str, list[str]]:
    """Return the inputs to extract and the models to pre-train, which DVC cannot derive from `models`."""
    lists: dict[str, dict[str, None]] = {"extract": {}, "pretrain": {}}
    for recipe in recipes:
        lists["extract"][recipe.input] = None
        lists["pretrain"] |= {recipe.model: None} if recipe.adapt else {}
    return {stage: [*names] for stage, names in lists.items()}


def check_stages(everything: params.Params, recipes: Sequence[Recipe]) -> None:
    """Raise InputError if the section `stages` of params.yaml does not fit these recipes.

    `stages` lists the inputs to extract and the models to pre-train. Each input and model that the recipes
    need must be listed. Other inputs may be listed, too, but no other models.
    """
    listed, needed = everything.stages.model_dump(), stage_lists(recipes)
    needed["extract"] = [*dict.fromkeys([*listed["extract"], *needed["extract"]])]
    differing = {stage: names for stage, names in needed.items() if {*names} != {*listed[stage]}}
    if differing:
        keys = " and ".join(f"stages.{stage}: [{', '.join(names)}]" for stage, names in differing.items())
        options = " ".join(f"-S 'stages.{stage}=[{','.join(names)}]'" for stage, names in differing.items())
        raise InputError(
            f"params.yaml: `models` [{', '.join(everything.models)}] need {keys}; set it there, or run the "
            f"experiment with {options}"
        )


MISSING = object()
DEFAULT = "default of pipeline/config/dataset_params.py"
ENTRY = "the model's entry in models/"


def settings(path: Path, recipe: Recipe) -> Iterator[tuple[str, Any, str]]:
    """Yield (dotted key, value, origin) of each setting of a recipe, in order.

    path: the params.yaml from which the recipe was resolved

    The origin is the text "FILE: KEY" of the place where the value is written. If the value is in no file,
    the origin says that it is a default of pipeline/config/dataset_params.py, or that it comes from the
    model's Entry, the declaration in the model's package.
    """
    written, entries = _written(path, recipe.dataset)
    model_entry, params_file = f"model.{recipe.model}.", f"{path.name}: "
    own = f"own.{recipe.entry.own}." if recipe.entry.own else ""
    phase = recipe.entry.phases[-1].settings if recipe.adapt else ""

    def of_dataset(prefix: str) -> list[str]:
        return [f"{entry}.{prefix}" for entry in entries]

    # section of the recipe -> places where its values may be written, in order of precedence
    places = {
        "settings": [*of_dataset(model_entry), params_file + model_entry, *of_dataset(f"{own}settings.")],
        "sizes": of_dataset(f"{own}sizes."),
        "loss": [f"{params_file}loss.", *(of_dataset(f"{own}loss.") if own else []), *of_dataset("loss.")],
        "train": [f"{params_file}train.", *of_dataset(f"{own}train."), *of_dataset(own)],
        "features": [f"{params_file}features.", *of_dataset("features.")],
        "adapt": [*of_dataset(f"{own}{phase}."), *of_dataset(own)],
    }
    weights = {f"lambda_{term}": weight for term, weight in recipe.loss.items()}
    for section, prefixes in places.items():
        default = DEFAULT if section in ("train", "adapt") else ENTRY
        for name, value in _flat(weights if section == "loss" else getattr(recipe, section)):
            value = list(value) if isinstance(value, tuple) else value
            origins = (prefix + name for prefix in prefixes if written.get(prefix + name, MISSING) == value)
            yield f"{section}.{name}", value, next(origins, default)


def _written(path: Path, dataset: str) -> tuple[dict[str, Any], list[str]]:
    """Read params.yaml and datasets.yaml. Return all their values, and the keys of one dataset's settings.

    The first result is a dictionary: "FILE: KEY" -> value. The second result lists the places where
    settings of the dataset may be written: "params.yaml: dataset.NAME" and "datasets.yaml: NAME". If
    the dataset has the key `like`, which names another dataset, the places of this dataset follow.
    """
    published = path.with_name(params.PUBLISHED)
    files = {path: "dataset.", published: ""} if published.exists() else {path: "dataset."}
    written = {
        f"{file.name}: {key}": value for file in files for key, value in _flat(read_yaml(file, params.REMEDY))
    }
    entries = [f"{file.name}: {prefix}" for file, prefix in files.items()]
    places = [f"{entry}{dataset}" for entry in entries]
    like_dataset = next((written[f"{place}.like"] for place in places if f"{place}.like" in written), None)
    return written, places + [f"{entry}{like_dataset}" for entry in entries if like_dataset]


def _flat(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) for all values in nested mappings. An empty mapping counts as a value."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from ((f"{name}.{key}", nested) for key, nested in _flat(value))
        else:
            yield name, value
