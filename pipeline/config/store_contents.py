"""What a feature store holds: written into it, and demanded of it by whoever reads it."""

from dataclasses import dataclass
from typing import Any

from pipeline.config import params
from pipeline.config.dataset_params import Dataset
from pipeline.io.errors import InputError

GRID, PIXELS = "grid", "pixels"
"""What models read: the backbone's feature grid, or an image itself. Each has a store of its own."""
IMAGENET = "imagenet"
"""Weights that somebody trained on ImageNet: torchvision's, timm's, or those that a package brings."""
IMPORTED = "imported from .npy files"
"""The weights and the resizing of features that were not made here: who made them knows."""
STATISTICS = "statistics"
"""A store's mean and deviation of each channel, where they are standardised."""
CHOSEN = ("backbone", "weights", "stride", "finer")
"""What `features` in params.yaml may set for all datasets at once."""


@dataclass(frozen=True)
class Spec:
    """Everything that decides an image's features, but for the image."""

    backbone: str  # resnet101 | a name of timm's
    weights: str  # IMAGENET | FILE | IMPORTED
    stride: int  # pixels of a cell's side: 16 | 32
    finer: bool  # whether the map of half the stride stands behind its channels
    standardise: bool  # each channel, by the dataset's first train images
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


def chosen(settings: params.Features, own: Any) -> dict[str, Any]:
    """What `features` in params.yaml set of CHOSEN; what is null there is that of `own`."""
    named = {key: getattr(settings, key) for key in CHOSEN}
    return {key: getattr(own, key) if value is None else value for key, value in named.items()}


def spec(settings: params.Features, dataset: Dataset) -> Spec:
    """What the parameters ask for; what is null is the dataset's own.

    Where the dataset's features are imported, weights and resize are IMPORTED, whatever params.yaml
    says of them: extracted features are refused in their place, and the other way round.
    Raises InputError where params.yaml asks for other weights as well, or to make of them what they are not.
    """
    own = dataset.features
    made = chosen(settings, own) | {"standardise": own.standardise}
    if own.npy is None:
        return Spec(**made, resize=settings.resize, size=settings.size)
    if settings.weights is not None:
        raise InputError(
            f"params.yaml: features.weights is {settings.weights!r}, but the dataset's features are to be "
            f"imported from {own.npy!r}; set one of features.weights and features.npy to null"
        )
    if changing := [key for key in ("finer", "standardise") if made[key]]:
        raise InputError(
            f"params.yaml: features that are imported, from {own.npy!r}, stay as they are; "
            f"set features.{changing[0]}: false"
        )
    return Spec(**made | {"weights": IMPORTED}, resize=IMPORTED, size=settings.size)
