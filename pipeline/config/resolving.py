"""Resolve the settings of a model on a dataset: merge the layers of settings, and check the result.

The last layer that names a key wins. From the lowest layer to the highest:

    defaults         of the types in dataset_params.py, and models.SHARED
    dataset          `dataset.<name>` in params.yaml, which contains datasets.yaml
    model            `layer` of the model's Entry, in the model's package
    dataset x model  `dataset.<name>.models.<family>`, then `dataset.<name>.models.<model>`
    overrides        what is not null in `features`, `loss`, `train` and `model.<model>` of params.yaml

A layer has the sections settings, sizes, loss, features, train, and one for each earlier phase. Models share
the layers of a dataset and of a family: each takes the settings, sizes and loss weights that it has.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

import models
from models.common.entry import Entry
from models.common.grid_embedding import Sizes
from pipeline.config import params
from pipeline.config.dataset_params import PHASES, SELECT, WITH_SCENES, Dataset, DatasetTrain
from pipeline.config.params import flat, merged, without_nulls
from pipeline.config.recipe_file import TRAIN, Recipe, bare, set_in, size_names, switches_of
from pipeline.config.store_contents import PIXELS, pixel_spec, spec
from pipeline.io import source_code
from pipeline.io.errors import InputError
from pipeline.io.records import first_fault

Values = dict[str, Any]
DEFAULT = "default of pipeline/config/dataset_params.py"
SHARED = "default of models/__init__.py"
ENTRY = "the model's entry in models/"
WEIGHT = "lambda_"  # how the key of a loss term's weight begins
OF_DATASET = ("settings", "sizes", "loss", "features", "train")  # sections of a dataset's layer


@dataclass(frozen=True)
class Layer:
    """Layer of settings, section -> key -> value.

    place: for values in the code, a text. Otherwise the key of a value in params.yaml: {key} in `place` is
        the value's section and name, {name} is only its name
    """

    place: str
    values: Mapping[str, Any]

    def key(self, key: str) -> str:
        """Return the full key, in params.yaml, of the value with this key in the layer."""
        return self.place.format(key=key, name=key.partition(".")[2])


def resolve(everything: params.Params, dataset: str, model: str) -> Recipe:
    """Return the recipe of one model on one dataset. Raises InputError for invalid settings."""
    found = layers(everything, dataset, model)
    values = merged(*(layer.values for layer in found))
    entry, own = entry_of(model), everything.of(dataset)
    settings = _in_order(values["settings"], models.settings_of(model)) | values["settings"]
    try:
        models.check(model, settings)
    except ValueError as error:
        raise InputError(f"{set_in(model, dataset)}: {error}") from None
    switches = switches_of(model, dataset, settings)
    reads_pixels = entry.reads(switches) == PIXELS
    phases = _pretraining(found, values, entry, switches, f"dataset.{dataset}.models.{entry.family}")
    start = {} if values.get("start") is None else {"start": values["start"]}
    if everything.train.fine_tune is not None:  # all tensors have values, so nothing is pre-trained
        phases, start = {}, {"fine_tune": everything.train.fine_tune}
    phases[TRAIN] = _phase(found, values, TRAIN, entry)
    phases[next(iter(phases))] |= start  # the first phase starts from these weights
    try:
        recipe = Recipe(
            dataset=dataset,
            model=model,
            settings=settings,
            sizes=_in_order(values["sizes"], size_names(entry.sizes)),
            loss=_loss(values["loss"], entry, switches, settings, f"dataset.{dataset}.loss"),
            phases=phases | everything.reinforce.decides,
            features=asdict((pixel_spec if reads_pixels else spec)(everything.features, own)),
            code=code_of(model),
        )
    except ValueError as error:
        raise InputError(f"{set_in(model, dataset)}: {error}") from None
    recipe.sizes_for(_shape(recipe, own), 8, 8)  # they fit together
    _check(recipe, everything, own)
    return recipe


def check_built(everything: params.Params, recipe: Recipe) -> None:
    """Raise InputError if the model's code refuses a value of a setting, before any work is done.

    The models of all phases are built, without values of their tensors.
    """
    shape = _shape(recipe, everything.of(recipe.dataset))
    for name in recipe.phases:
        bare(recipe.until(name), shape)


def _shape(recipe: Recipe, own: Dataset) -> tuple[int, int, int]:
    """Return the shape of an image's input; of a feature grid, an example."""
    return (3, *own.features.pixels) if recipe.input == PIXELS else (16, 14, 14)


def _in_order(values: Mapping[str, Any], names: Iterable[str]) -> Values:
    return {name: values[name] for name in names if name in values}


def layers(everything: params.Params, dataset: str, model: str) -> list[Layer]:
    """Return the layers of settings of a model on a dataset, from the lowest to the highest.

    Raises InputError if the model or the dataset is unknown, or if no model takes a key of the dataset.
    """
    if model not in everything.model:
        names = ", ".join(everything.model)
        raise InputError(f"unknown model {model!r}; params.yaml has {names} under 'model'")
    entry, own = entry_of(model), everything.of(dataset)
    if entry.family is not None and entry.family not in own.models:
        key = f"dataset.{dataset}.models.{entry.family}"
        raise InputError(f"params.yaml: {key} is missing, which has the settings of {model}; add it")
    _check_known(dataset, own)
    of_dataset = own.model_dump(include={*OF_DATASET}, exclude_unset=True) | {"settings": own.settings}
    shared = [
        Layer(f"dataset.{dataset}.{{key}}", of_dataset),
        Layer(ENTRY, without_nulls(entry.layer)),
        *(
            Layer(
                f"dataset.{dataset}.models.{name}.{{key}}",
                own.models[name].model_dump(exclude_unset=True),
            )
            for name in dict.fromkeys((entry.family, model))
            if name in own.models
        ),
    ]
    overrides = {
        "features": everything.features.model_dump(),
        "loss": everything.loss,
        "train": everything.train.model_dump(exclude={"log"}),
        "reinforce": everything.reinforce.model_dump(),
    }
    return [
        Layer(SHARED, {"settings": models.SHARED}),
        *(Layer(layer.place, _taken(layer.values, model, entry)) for layer in shared),
        Layer("{key}", without_nulls(overrides)),
        Layer(f"model.{model}.{{name}}", {"settings": without_nulls(everything.model[model])}),
    ]


def _taken(values: Mapping[str, Any], model: str, entry: Entry) -> Values:
    """Return a layer that models share, with only the settings, switches and sizes that this model takes."""
    names = {"settings": {*models.settings_of(model)}, "sizes": {*size_names(entry.sizes)}}
    taken = dict(values)
    for section in names.keys() & values.keys():
        taken[section] = {name: value for name, value in values[section].items() if name in names[section]}
    if isinstance(switches := taken.get("settings", {}).get("switches"), Mapping):
        taken["settings"]["switches"] = {name: switches[name] for name in switches if name in entry.switches}
    return taken


def _check_known(dataset: str, own: Dataset) -> None:
    """Raise InputError if a dataset's layer has a key that none of the models takes that share the layer."""
    place = f"dataset.{dataset}"
    _refuse_unknown(f"{place}.settings", own.settings, models.MODELS, models.settings_of)
    _refuse_unknown(f"{place}.sizes", own.sizes, [Sizes], size_names)
    families = {entry.family for entry in models.MODELS.values() if entry.family}
    _refuse_unknown(f"{place}.models", own.models, [*models.MODELS, *families], lambda name: [name])
    for name, layer in own.models.items():
        sharing = [model for model, entry in models.MODELS.items() if name in (model, entry.family)]
        _refuse_unknown(f"{place}.models.{name}.settings", layer.settings, sharing, models.settings_of)
        _refuse_unknown(f"{place}.models.{name}.sizes", layer.sizes, sharing, _sizes_of)


def _refuse_unknown(
    place: str, values: Iterable[str], sharing: Iterable[Any], names_of: Callable[[Any], Sequence[str]]
) -> None:
    known = dict.fromkeys(name for each in sharing for name in names_of(each))
    for name in values:
        if name not in known:
            raise InputError(f"params.yaml: unknown key {place}.{name}; there are {', '.join(known)}")


def _sizes_of(model: str) -> list[str]:
    return size_names(entry_of(model).sizes)


def _phase(found: Sequence[Layer], values: Mapping[str, Any], name: str, entry: Entry) -> Values:
    """Return the complete settings of a training phase. Raises InputError naming a wrong or missing key."""
    schema = DatasetTrain if entry.family is None else PHASES[name]
    stated = {key: value for key, value in values.get(name, {}).items() if key != "fine_tune"}
    try:
        return schema.model_validate(stated).model_dump()
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, (name, *first["loc"])))
        of_dataset = [layer for layer in found if layer.place.startswith("dataset.")][-1]
        if first["type"] == "missing":
            raise InputError(f"params.yaml: {of_dataset.key(key)} is missing; add it") from None
        layer = origin(found, key) if first["loc"] else None  # a fault of several keys has no place
        section = (layer or of_dataset).key(name)
        raise InputError(f"params.yaml or datasets.yaml: {section}: {first_fault(error)}") from None


def _pretraining(
    found: Sequence[Layer], values: Mapping[str, Any], entry: Entry, switches: Any, place: str
) -> Values:
    """Return the settings of each pre-training phase, by its name.

    `switches` select the phases and their tasks. `place`: key of the model's family, for messages. Raises
    InputError if the settings of a phase, or the weight of a task, are missing.
    """
    result: Values = {}
    for phase in entry.pretraining_of(switches):
        settings = _phase(found, values, phase.name, entry)
        tasks = phase.tasks(switches)
        if missing := [task for task in tasks if task not in settings["tasks"]]:
            key = f"{place}.{phase.name}.tasks.{missing[0]}"
            raise InputError(f"params.yaml: {key} is missing, the task's weight; add it")
        if tasks:
            settings["tasks"] = {task: settings["tasks"][task] for task in tasks}
        result[phase.name] = settings
    return result


def _loss(weights: Values, entry: Entry, switches: Any, settings: Values, place: str) -> dict[str, float]:
    """Return the weight of each loss term that the Entry names, except of terms that the switches leave out.

    Raises InputError if a term has no weight. `place`: key of the dataset's weights, for the message.
    """
    left_out = entry.left_out(switches, settings)
    terms = [key.removeprefix(WEIGHT) for key in entry.layer.get("loss", {})]
    found: dict[str, float] = {}
    for term in terms:
        if term in left_out:
            continue
        if (weight := weights.get(WEIGHT + term)) is None:
            key = f"{WEIGHT}{term}"
            raise InputError(
                f"params.yaml: {place}.{key} is missing; add it, set loss.{key}, or give the Entry a weight: "
                f"layer={{'loss': {{{key!r}: 1.0}}}}"
            )
        found[term] = weight
    return found


def entry_of(model: str) -> Entry:
    try:
        return models.entry_of(model)
    except ValueError as error:
        raise InputError(str(error)) from None


def code_of(model: str) -> dict[str, str]:
    return source_code.of_model(model, entry_of(model).build)


def _check(recipe: Recipe, everything: params.Params, dataset_settings: Dataset) -> None:
    """Raise InputError if a setting needs something that the dataset or the model lacks."""
    dataset, model, text = recipe.dataset, recipe.model, dataset_settings.text
    reader, reward = dataset_settings.prepare.reader, everything.reinforce.reward
    own = f".models.{recipe.entry.family}" if recipe.entry.family else ""
    key = "train" if everything.train.select else f"dataset.{dataset}{own}.train"
    phases = recipe.phases.values()
    faults = (
        (
            recipe.phases[TRAIN]["select"] == "truth" and reader not in WITH_SCENES,
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
            "images" in recipe.phases
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


def stage_lists(recipes: Iterable[Recipe]) -> dict[str, list[str]]:
    """Return the inputs to extract and the models to pre-train, which DVC cannot derive from `models`."""
    lists: dict[str, dict[str, None]] = {"extract": {}, "pretrain": {}}
    for recipe in recipes:
        lists["extract"][recipe.input] = None
        lists["pretrain"] |= {recipe.model: None} if recipe.pretraining else {}
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


def origin(found: Sequence[Layer], key: str) -> Layer | None:
    """Return the highest layer that names a dotted key; None if only a default gives its value."""
    return next((layer for layer in reversed(found) if flat(layer.values).get(key, {}) != {}), None)
