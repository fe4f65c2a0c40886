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
    """Resolved value of a setting.

    `key` is dotted, for example "train.batch". `origin` is the text "FILE: KEY", or names the source of a
    default.
    """

    key: str
    value: Any
    origin: str


class Files:
    """Contents of params.yaml and datasets.yaml as written, and the order in which settings are looked up."""

    def __init__(self, path: Path, dataset: str) -> None:
        published = path.with_name(params.PUBLISHED)
        self.trees: dict[str, Any] = {path.name: read_yaml(path, params.REMEDY)}
        if published.exists():
            self.trees[published.name] = read_yaml(published, params.REMEDY)
        self.own = path.name
        self.places = self._places(dataset)
        like = next((name for each in self.places if isinstance(name := self.at(*each, "like"), str)), None)
        self.places += self._places(like) if like else []

    def _places(self, dataset: str) -> list[tuple[str, str]]:
        return [(file, f"dataset.{dataset}" if file == self.own else dataset) for file in self.trees]

    def at(self, file: str, *keys: str) -> Any:
        """Return the value at a dotted key of a file, or MISSING; `keys` are joined by dots to the key."""
        branch = self.trees[file]
        for key in ".".join(keys).split("."):
            branch = branch.get(key, MISSING) if isinstance(branch, dict) else MISSING
        return branch

    def candidates(self, key: str) -> Iterator[tuple[str, str]]:
        """Yield the places where a setting may be, as (file, full key), in order of precedence.

        If `key` begins with `dataset:`, the rest is a key in the dataset's entry.
        """
        section, _, rest = key.partition(":")
        if section == "dataset":
            yield from ((file, f"{prefix}.{rest}") for file, prefix in self.places)
        else:
            yield self.own, key

    def origin(self, value: Any, keys: tuple[str, ...], default: str) -> str:
        """Return the first place where one of `keys` has the value, as "FILE: KEY"; else `default`."""
        for key in keys:
            for file, place in self.candidates(key):
                if self.at(file, place) == value:
                    return f"{file}: {place}"
        return default


def settings(path: Path, recipe: Recipe) -> Iterator[Setting]:
    """Yield the settings of a recipe, in its order. `path` is the params.yaml from which it was resolved."""
    files, own = Files(path, recipe.dataset), recipe.entry.own
    below = f"dataset:own.{own}." if own else "dataset:"
    phase = recipe.entry.phases[-1].settings if recipe.adapt else ""
    sections: tuple[tuple[str, Mapping[str, Any], tuple[str, ...], str], ...] = (
        (
            "settings",
            recipe.settings,
            (f"dataset:model.{recipe.model}.", f"model.{recipe.model}.", f"{below}settings."),
            ENTRY,
        ),
        ("sizes", recipe.sizes, (f"{below}sizes.",), ENTRY),
        (
            "loss",
            {f"lambda_{term}": weight for term, weight in recipe.loss.items()},
            ("loss.", "dataset:loss."),
            ENTRY,
        ),
        ("train", recipe.train, ("train.", f"{below}train.", below), DEFAULT),
        ("features", recipe.features, ("features.", "dataset:features."), ENTRY),
        ("adapt", recipe.adapt, (f"{below}{phase}.", below), DEFAULT),
    )
    for section, values, keys, default in sections:
        for name, value in flat(values):
            shown = list(value) if isinstance(value, tuple) else value
            origin = files.origin(shown, tuple(f"{key}{name}" for key in keys), default)
            yield Setting(f"{section}.{name}", shown, origin)


def flat(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) for all values in nested mappings. An empty mapping counts as a value."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from ((f"{name}.{key}", each) for key, each in flat(value))
        else:
            yield name, value
