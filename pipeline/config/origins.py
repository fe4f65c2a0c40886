"""Find the layer, and the key in a file, that gives each setting of a recipe its value."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.config import params
from pipeline.config.params import flat
from pipeline.config.recipe_file import Recipe
from pipeline.config.resolving import DEFAULT, ENTRY, WEIGHT, layers, origin
from pipeline.io.inputs import read_yaml

COMPUTED = "computed from the dataset's features"


def settings(path: Path, recipe: Recipe) -> Iterator[tuple[str, Any, str]]:
    """Yield (dotted key, value, origin) of each setting of a recipe, in order.

    path: the params.yaml from which the recipe was resolved

    The origin is "FILE: KEY" of the layer that gave the value, or a text if the value is a default or comes
    from the model's Entry, the declaration in the model's package.
    """
    found = layers(params.load(path), recipe.dataset, recipe.model)
    written = _written(path, recipe.dataset)
    loss = {WEIGHT + term: weight for term, weight in recipe.loss.items()}
    sections = {"settings": recipe.settings, "sizes": recipe.sizes, "loss": loss, **recipe.phases}
    for section, own in (sections | {"features": recipe.features}).items():
        for name, value in flat(own).items():
            key = name if name == "start" else f"{section}.{name}"
            layer = origin(found, key)
            place = layer.key(key) if layer else DEFAULT
            if section == "features" and (layer is None or flat(layer.values)[key] != value):
                place = ENTRY if name == "input" else COMPUTED
            shown = list(value) if isinstance(value, tuple) else value
            yield f"{section}.{name}", shown, written.get(place, place)


def _written(path: Path, dataset: str) -> dict[str, str]:
    """Return full key -> "FILE: KEY" of params.yaml (`path`) and of a dataset's settings in datasets.yaml.

    A key of the dataset may be written for the dataset that its key `like` names, instead.
    """
    published = path.with_name(params.PUBLISHED)
    files = {path: "dataset.", published: ""} if published.exists() else {path: "dataset."}
    trees = [(file, prefix, flat(read_yaml(file, params.REMEDY))) for file, prefix in files.items()]
    like = next((tree[key] for _, prefix, tree in trees if (key := f"{prefix}{dataset}.like") in tree), None)
    found = {key: f"{path.name}: {key}" for key in trees[0][2] if not key.startswith("dataset.")}
    for name in dict.fromkeys((like, dataset)):
        for file, prefix, tree in reversed(trees):
            start = f"{prefix}{name}."
            for key in tree:
                if key.startswith(start):
                    found[f"dataset.{dataset}.{key.removeprefix(start)}"] = f"{file.name}: {key}"
    return found
