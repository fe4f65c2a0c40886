"""Settings of pre-training in params.yaml: negatives, and datasets that only pre-training uses."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipeline.config.dataset_params import Distinct, Name, Seed, Strict, Stride
from pipeline.io.errors import InputError


class Negatives(Strict):
    """Settings of negatives (wrong captions). `grammar` gives the grammar of each dataset (null: unknown)."""

    seed: Seed = 1
    grammar: dict[Name, Literal["geometric", "birds"] | None] = Field(default_factory=dict)

    def of(self, dataset: str) -> tuple[Literal["geometric", "birds"], int]:
        """Return (grammar, seed) of a dataset's negatives. Raises InputError if the grammar is unknown."""
        if (grammar := self.grammar.get(dataset)) is None:
            raise InputError(
                f"negatives of {dataset} need a grammar; set negatives.grammar.{dataset} in params.yaml to "
                "geometric or birds, or choose models that use no negatives"
            )
        return grammar, self.seed


class Pretraining(Strict):
    """Datasets that only pre-training uses. `seed` is the seed of NABirds' pairs and CUB's negatives."""

    datasets: Annotated[tuple[Literal["cub", "nabirds"], ...], Distinct] = Field(default=(), strict=False)
    root: dict[Literal["cub", "nabirds"], str] = Field(default_factory=dict)
    # used if the setting is null in `features`; the features of these datasets are never standardised
    backbone: str = "resnet101"
    weights: str = "imagenet"
    stride: Stride = 16
    finer: bool = False
    seed: Seed = 1

    @model_validator(mode="after")
    def _placed(self) -> Self:
        if missing := [name for name in self.datasets if name not in self.root]:
            raise ValueError(f"datasets names {missing[0]!r}, but root has no folder for it; add it")
        return self
