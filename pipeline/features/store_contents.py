"""What a feature store holds: written into it, and demanded of it by whoever reads it."""

from dataclasses import dataclass
from typing import Any

from pipeline import params
from pipeline.dataset_params import Dataset
from pipeline.errors import InputError

GRID, PIXELS = "grid", "pixels"
"""What models read: the backbone's feature grid, or an image itself. Each has a store of its own."""
IMPORTED = "imported from .npy files"
"""The weights and the resizing of features that were not made here: who made them knows."""


@dataclass(frozen=True)
class Spec:
    """Everything that decides an image's features, but for the image."""

    weights: str  # imagenet | random | FILE | IMPORTED
    layer: str
    resize: str  # of params.yaml, or IMPORTED
    size: int  # pixels a side
    input: str = GRID

    @property
    def squashed(self) -> tuple[int, int]:
        """Width and height of an image that the backbone sees."""
        return self.size, self.size


@dataclass(frozen=True)
class PixelSpec:
    """Everything that decides what is stored of an image whose pixels are read themselves."""

    height: int
    width: int
    resize: str  # of params.yaml
    input: str = PIXELS

    @property
    def squashed(self) -> tuple[int, int]:
        """Width and height of a stored image."""
        return self.width, self.height


def recorded_spec(features: dict[str, Any]) -> Spec | PixelSpec:
    """What a recipe's `features` say that its model reads."""
    return PixelSpec(**features) if features.get("input") == PIXELS else Spec(**features)


def pixel_spec(settings: params.Features, dataset: Dataset) -> PixelSpec:
    """What the parameters ask for."""
    height, width = dataset.features.pixels
    return PixelSpec(height, width, settings.resize)


def spec(settings: params.Features, dataset: Dataset) -> Spec:
    """What the parameters ask for; null weights are the dataset's own.

    Where the dataset's features are imported, weights and resize are IMPORTED, whatever params.yaml
    says of them: extracted features are refused in their place, and the other way round.
    Raises InputError where params.yaml asks for other weights as well.
    """
    if dataset.features.npy is None:
        weights = dataset.features.weights if settings.weights is None else settings.weights
        return Spec(weights, settings.layer, settings.resize, settings.size)
    if settings.weights is not None:
        raise InputError(
            f"params.yaml: features.weights is {settings.weights!r}, but the dataset's features are to be "
            f"imported from {dataset.features.npy!r}; set one of features.weights and features.npy to null"
        )
    return Spec(IMPORTED, settings.layer, IMPORTED, settings.size)
