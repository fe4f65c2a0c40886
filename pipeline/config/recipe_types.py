"""The types of a recipe's file, which may be edited by hand: what its keys may hold."""

from typing import Annotated, Any

from pydantic import Field, FiniteFloat, create_model

from pipeline.config.dataset_params import PhaseSettings, Pretrain, Strict, Weight
from pipeline.config.params import Reinforce

FIELDS = PhaseSettings.model_fields | Pretrain.model_fields
Scalar = bool | int | FiniteFloat | str | None
Finite = Scalar | list[Scalar] | dict[str, Scalar | list[Scalar]]
"""A setting of a model: a switch or a number, or some of them."""

# a recipe by hand may leave out what its phase does not need, so no key is required
Settings: Any = create_model(  # type: ignore[call-overload]  # of names that it does not know
    "Settings",
    __base__=Strict,
    start=(str | None, None),
    **{name: (Annotated[each.annotation, Field(), *each.metadata], None) for name, each in FIELDS.items()},
)


class Train(Settings):  # type: ignore[misc]  # made above
    """The settings of the captioning, and of the phase after it, if it has one."""

    reinforce: Reinforce | None = None


class Adapt(Settings):  # type: ignore[misc]  # made above
    """The settings of a phase before captioning, in which those of the phase before it are."""

    images: Settings | None = None


class RecipeFile(Strict):
    """A recipe as it is written."""

    dataset: str
    model: str
    settings: dict[str, Finite]
    sizes: dict[str, int]
    loss: dict[str, Weight]
    train: Train
    features: dict[str, Scalar]
    code: dict[str, str]
    adapt: Adapt = Field(default_factory=Adapt)
