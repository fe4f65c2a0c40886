"""What IDC-PCL's switches leave of its pre-training, and what they add: tasks, a phase on CUB's images."""

from typing import Any

import torch

from models.idc_pcl_pretraining import Pretraining
from pipeline.dataset_params import Dataset, Pretrain
from pipeline.errors import InputError
from pipeline.recipes.recipe_file import Recipe, build_first_phase


def resolved(
    recipe: Recipe, dataset: Dataset, key: str, shape: tuple[int, int, int], words: bool
) -> dict[str, Any]:
    """The recipe's phase before captioning, with the tasks that its switches ask for and no others.

    With CUB (the switch extra_data) the phase on its images stands in it as `images`. `key`: where the
    settings stand; `words`: whether there is a vocabulary of words, which must then have CUB's. Raises
    InputError naming the key that is missing.
    """
    own = next(own for name, own in dataset.own.items() if key.endswith(f".own.{name}"))
    assert own.pretrain is not None  # the recipe has it
    first = _model(recipe, shape, images=False)
    found = recipe.adapt | {"tasks": _weights(own.pretrain, first.terms, f"{key}.pretrain")}
    if "cub" not in first.switches.extra_data.split("_"):
        return found
    if own.images is None:
        raise InputError(f"params.yaml: {key}.images is missing, the pre-training on CUB; add it")
    if words and dataset.text.vocabulary is None and dataset.text.counted_with != "cub":
        text = f"{key.partition('.own.')[0]}.text.counted_with"
        raise InputError(
            f"params.yaml: extra_data has cub, whose words the vocabulary lacks; set {text}: cub"
        )
    terms = _model(recipe, shape, images=True).terms
    tasks = _weights(own.images, terms, f"{key}.images")
    return found | {"images": own.images.model_dump() | {"tasks": tasks}}


def _model(recipe: Recipe, shape: tuple[int, int, int], images: bool) -> Pretraining:
    """Names and shapes only."""
    with torch.device("meta"):
        model = build_first_phase(recipe, recipe.sizes_for(shape, 8, 8), images=images)
    assert isinstance(model, Pretraining)
    return model


def _weights(phase: Pretrain, terms: tuple[str, ...], key: str) -> dict[str, float]:
    weights: dict[str, float] = dict(phase.tasks.items())
    if missing := [task for task in terms if task not in weights]:
        raise InputError(f"params.yaml: {key}.tasks.{missing[0]} is missing, how often it is drawn; add it")
    return {task: weights[task] for task in terms}
