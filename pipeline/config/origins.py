"""Find the origin of each resolved setting of a recipe: the file and the key that give its value."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.config import params
from pipeline.config.recipe_file import Recipe
from pipeline.io.inputs import read_yaml

MISSING = object()
DEFAULT = "default of pipeline/config/dataset_params.py"
ENTRY = "the model's entry in models/"


def settings(path: Path, recipe: Recipe) -> Iterator[tuple[str, Any, str]]:
    """Yield (dotted key, value, origin) of each setting of a recipe, in order.

    path: the params.yaml from which the recipe was resolved

    The origin is the text "FILE: KEY" of the place where the value is written. If the value is in no file,
    the origin says that it is a default of pipeline/config/dataset_params.py, or that the model's entry
    gives it.
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
        "loss": [f"{params_file}loss.", *of_dataset("loss.")],
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
    """Return all values written in params.yaml and datasets.yaml, and where a dataset's settings are.

    The first result is a dictionary: "FILE: KEY" -> value. The second result is a list of places, such
    as "params.yaml: dataset.NAME". It begins with the places of the dataset itself. If the dataset has
    the key `like`, which names another dataset, the places of the other dataset follow.
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
