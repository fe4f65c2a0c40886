"""The lists `stages` in params.yaml: what has a stage that only some models need.

DVC makes a stage of each listed name and can't derive the lists from `models`: here they are checked.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from pipeline.config import resolving
from pipeline.config.params import Params
from pipeline.config.recipe_file import Recipe
from pipeline.io.errors import InputError


def runs(everything: Params) -> Iterator[tuple[str, str]]:
    """Yield the dataset and the model of each run."""
    return product(everything.datasets, everything.models)


def needed(recipe: Recipe) -> dict[str, str]:
    """Return by stage the name that a recipe needs in the stage's list."""
    found = {"extract": recipe.input}
    if recipe.adapt:
        found["pretrain"] = recipe.model
    if recipe.adapt and recipe.entry.retrieves:
        found["retrieve"] = recipe.model
    if recipe.asks_negatives:
        found["negatives"] = recipe.dataset
    return found


def lists(recipes: Iterable[Recipe]) -> dict[str, Any]:
    """Return the whole section `stages` for these recipes."""
    found: dict[str, list[str]] = {"extract": [], "negatives": [], "pretrain": [], "retrieve": []}
    for recipe in recipes:
        for stage, name in needed(recipe).items():
            found[stage] += [name] * (name not in found[stage])
    return found


def of_tree(tree: Any, inputs: Iterable[str]) -> dict[str, Any]:
    """Return the section `stages` for the runs of a tree of params.yaml; `inputs`: more stores to make."""
    everything = Params.model_validate(tree)
    found = lists(resolving.resolve(everything, *run) for run in runs(everything))
    return found | {"extract": list(dict.fromkeys([*inputs, *found["extract"]]))}


def check(everything: Params, recipes: Iterable[Recipe]) -> None:
    """Raise InputError naming a list that lacks what a recipe needs, or has a name that no recipe needs."""
    listed, known = everything.stages.model_dump(), list(recipes)
    for recipe in known:
        missing = [
            f"{name} to stages.{stage}" for stage, name in needed(recipe).items() if name not in listed[stage]
        ]
        if missing:
            raise InputError(
                f"params.yaml: {recipe.model} on {recipe.dataset} needs more stages; add {', '.join(missing)}"
            )
    wanted = lists(known) | {"extract": listed["extract"], "negatives": everything.datasets}
    for stage, names in listed.items():
        if surplus := [name for name in names if name not in wanted[stage]]:
            raise InputError(f"params.yaml: stages.{stage} names {surplus[0]}, which no run needs; remove it")
