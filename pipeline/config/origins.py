"""Find the origin of each resolved setting of a recipe: the file and the key that give its value."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.config import params
from pipeline.config.recipe_file import Recipe
from pipeline.io.inputs import read_yaml

MISSING = object()
DEFAULT = "default of pipeline/config/dataset_params.py"
ENTRY = "the model's entry in models/"


@dataclass(frozen=True)
class Setting:
    """One resolved setting of a recipe: its dotted key, its value and the origin of the value.

    `origin` is "FILE: KEY" of the place that gives the value. If no file gives it, `origin` names the
    source of the default.
    """

    key: str
    value: Any
    origin: str


def settings(path: Path, recipe: Recipe) -> Iterator[Setting]:
    """Yield the settings of a recipe in order; the recipe was resolved from the params.yaml at `path`."""
    known, datasets = _written(path, recipe.dataset)
    model, own = recipe.model, recipe.entry.own
    below = f"own.{own}." if own else ""
    phase = recipe.entry.phases[-1].settings if recipe.adapt else ""
    loss = {f"lambda_{term}": weight for term, weight in recipe.loss.items()}

    def of_datasets(prefix: str) -> list[str]:
        return [f"{place}.{prefix}" for place in datasets]

    # section, values, places where a value may be written in order of precedence, origin of other values
    sections: tuple[tuple[str, Mapping[str, Any], list[str], str], ...] = (
        (
            "settings",
            recipe.settings,
            [
                *of_datasets(f"model.{model}."),
                f"{path.name}: model.{model}.",
                *of_datasets(f"{below}settings."),
            ],
            ENTRY,
        ),
        ("sizes", recipe.sizes, of_datasets(f"{below}sizes."), ENTRY),
        ("loss", loss, [f"{path.name}: loss.", *of_datasets("loss.")], ENTRY),
        (
            "train",
            recipe.train,
            [f"{path.name}: train.", *of_datasets(f"{below}train."), *of_datasets(below)],
            DEFAULT,
        ),
        ("features", recipe.features, [f"{path.name}: features.", *of_datasets("features.")], ENTRY),
        ("adapt", recipe.adapt, [*of_datasets(f"{below}{phase}."), *of_datasets(below)], DEFAULT),
    )
    for section, values, places, default in sections:
        for name, value in _flat(values):
            shown = list(value) if isinstance(value, tuple) else value
            origins = (place + name for place in places if known.get(place + name, MISSING) == shown)
            yield Setting(f"{section}.{name}", shown, next(origins, default))


def _written(path: Path, dataset: str) -> tuple[dict[str, Any], list[str]]:
    """Return the values that are written in both files of settings, and the places of the dataset's settings.

    The values are a dictionary: "FILE: KEY" -> value. A place is the "FILE: KEY" of an entry. The first
    places are the entries of the dataset itself. If an entry has the key `like`, the entries of the dataset
    that it names follow.
    """
    published = path.with_name(params.PUBLISHED)
    files = {path: "dataset.", published: ""} if published.exists() else {path: "dataset."}
    known = {
        f"{file.name}: {key}": value for file in files for key, value in _flat(read_yaml(file, params.REMEDY))
    }
    entries = [f"{file.name}: {prefix}" for file, prefix in files.items()]
    places = [f"{entry}{dataset}" for entry in entries]
    like = next((known[f"{place}.like"] for place in places if f"{place}.like" in known), None)
    return known, places + [f"{entry}{like}" for entry in entries if like]


def _flat(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) for all values in nested mappings. An empty mapping counts as a value."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from ((f"{name}.{key}", each) for key, each in _flat(value))
        else:
            yield name, value
