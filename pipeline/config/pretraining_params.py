"""What params.yaml says of pre-training: its wrong captions, and the datasets that it alone sees."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipeline.config.dataset_params import Distinct, Name, Seed, Strict, Stride
from pipeline.io.errors import InputError


class Negatives(Strict):
    """Wrong captions for pre-training. `grammar`: how a dataset's captions speak; null: in no known way."""

    seed: Seed = 1
    grammar: dict[Name, Literal["geometric", "birds"] | None] = Field(default_factory=dict)

    def of(self, dataset: str) -> tuple[Literal["geometric", "birds"], int]:
        """Return a dataset's grammar and the seed. Raises InputError where it has no grammar."""
        if (grammar := self.grammar.get(dataset)) is None:
            raise InputError(
                f"there is no grammar to make negatives of {dataset} by; set negatives.grammar.{dataset} in "
                "params.yaml to geometric or birds, or take models that learn from none"
            )
        return grammar, self.seed


class Pretraining(Strict):
    """Datasets that pre-training alone sees, and where. `seed`: of NABirds' pairs and CUB's negatives."""

    datasets: Annotated[tuple[Literal["cub", "nabirds"], ...], Distinct] = Field(default=(), strict=False)
    root: dict[Literal["cub", "nabirds"], str] = Field(default_factory=dict)
    # of the backbone, where `features` have null; its features are never standardised
    backbone: str = "resnet101"
    weights: str = "imagenet"
    stride: Stride = 16
    finer: bool = False
    seed: Seed = 1

    @model_validator(mode="after")
    def _placed(self) -> Self:
        if missing := [name for name in self.datasets if name not in self.root]:
            raise ValueError(f"datasets names {missing[0]!r}, and root does not say where it lies; add it")
        return self
