"""Types of the values in a recipe file, which may be edited by hand."""

from typing import Annotated, Any

from pydantic import Field, FiniteFloat, create_model

from pipeline.config.dataset_params import PhaseSettings, Pretrain, Strict, Weight
from pipeline.config.params import Reinforce

FIELDS = PhaseSettings.model_fields | Pretrain.model_fields
Scalar = bool | int | FiniteFloat | str | None
Finite = Scalar | list[Scalar] | dict[str, Scalar | list[Scalar]]
"""A setting of a model: a value, or a list or mapping of values."""

# no key is required, as a recipe that is written by hand may leave out keys that its phase does not need
Settings: Any = create_model(  # type: ignore[call-overload]  # mypy does not know the fields' names
    "Settings",
    __base__=Strict,
    start=(str | None, None),
    **{name: (Annotated[each.annotation, Field(), *each.metadata], None) for name, each in FIELDS.items()},
)


class Train(Settings):  # type: ignore[misc]  # a class that create_model made
    """Settings of the captioning phase, and of the reward phase after it, if any."""

    reinforce: Reinforce | None = None


class Adapt(Settings):  # type: ignore[misc]  # a class that create_model made
    """Settings of the last pre-training phase; `images` are the settings of the phase before it."""

    images: Settings | None = None


class RecipeFile(Strict):
    """Contents of a recipe file."""

    dataset: str
    model: str
    settings: dict[str, Finite]
    sizes: dict[str, int]
    loss: dict[str, Weight]
    train: Train
    features: dict[str, Scalar]
    code: dict[str, str]
    adapt: Adapt = Field(default_factory=Adapt)
