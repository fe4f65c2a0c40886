"""Lists in the section `stages` of params.yaml: inputs that are extracted, models that are pre-trained.

DVC makes a stage for each listed name. It cannot derive the lists from `models`, so the stage `settings`,
which runs first, compares the lists with `models`.
"""

from collections.abc import Iterable, Sequence

from pipeline.config.params import Params
from pipeline.config.recipe_file import Recipe
from pipeline.io.errors import InputError

Lists = dict[str, list[str]]


def lists(recipes: Iterable[Recipe]) -> Lists:
    """Return the lists that the section `stages` must have for these recipes."""
    found: dict[str, dict[str, None]] = {"extract": {}, "pretrain": {}}
    for recipe in recipes:
        found["extract"][recipe.input] = None
        found["pretrain"] |= {recipe.model: None} if recipe.adapt else {}
    return {stage: [*names] for stage, names in found.items()}


def check(everything: Params, recipes: Sequence[Recipe]) -> None:
    """Raise InputError if the section `stages` is not `lists(recipes)`; `extract` may have more inputs."""
    listed, wanted = everything.stages.model_dump(), lists(recipes)
    wanted["extract"] = [*dict.fromkeys([*listed["extract"], *wanted["extract"]])]
    wrong = {stage: names for stage, names in wanted.items() if {*names} != {*listed[stage]}}
    if wrong:
        keys = " and ".join(f"stages.{stage}: [{', '.join(names)}]" for stage, names in wrong.items())
        given = " ".join(f"-S 'stages.{stage}=[{','.join(names)}]'" for stage, names in wrong.items())
        raise InputError(
            f"params.yaml: `models` [{', '.join(everything.models)}] need {keys}; set it there, or run the "
            f"experiment with {given}"
        )
