"""Specification of a feature store. Each store contains its specification, and opening a store checks it."""

from dataclasses import dataclass
from typing import Any, Final, Literal

from pipeline.config import params
from pipeline.config.dataset_params import Dataset, Resize, Side, Size, Stride
from pipeline.config.params import merged, without_nulls
from pipeline.io.errors import InputError

# inputs of models: the backbone's feature grid, or the image's pixels. Each input has its own store
GRID: Final = "grid"
PIXELS: Final = "pixels"
IMAGENET = "imagenet"  # weights trained on ImageNet, from torchvision, timm or another package
IMPORTED: Final = "imported from .npy files"  # weights and resizing of features of another program
STATISTICS = "statistics"  # mean and standard deviation of each channel of standardised features
CHOSEN = ("backbone", "weights", "stride", "finer")  # settings that `features` may set for all datasets


@dataclass(frozen=True)
class Spec:
    """All settings that determine the features of an image.

    If `finer` is true, the backbone's map of half the stride is used, too. Its 2 x 2 cells at the place
    of a cell are appended to this cell as further channels.
    """

    backbone: str  # resnet101 | a name of timm's
    weights: str  # IMAGENET | FILE | IMPORTED
    stride: Stride  # side of a cell in pixels
    finer: bool  # append the channels of the map of half the stride
    standardise: bool  # standardise each channel, with statistics of the dataset's first train images
    resize: Resize | Literal["imported from .npy files"]  # IMPORTED
    size: Size  # side of the image in pixels
    input: Literal["grid"] = GRID

    @property
    def squashed(self) -> tuple[int, int]:
        return self.size, self.size


@dataclass(frozen=True)
class PixelSpec:
    """All settings that determine the stored pixels of an image."""

    height: Side
    width: Side
    resize: Resize
    input: Literal["pixels"] = PIXELS

    @property
    def squashed(self) -> tuple[int, int]:
        return self.width, self.height


def recorded_spec(features: dict[str, Any]) -> Spec | PixelSpec:
    return PixelSpec(**features) if features.get("input") == PIXELS else Spec(**features)


def pixel_spec(settings: params.Features, dataset: Dataset) -> PixelSpec:
    """Return the specification of a store of pixels."""
    height, width = dataset.features.pixels
    return PixelSpec(height, width, settings.resize)


def chosen(settings: params.Features, dataset_features: Any) -> dict[str, Any]:
    """Return the settings of the backbone that CHOSEN lists; a null takes the dataset's value."""
    of_dataset, overrides = (each.model_dump(include={*CHOSEN}) for each in (dataset_features, settings))
    return merged(of_dataset, without_nulls(overrides))


def spec(settings: params.Features, dataset: Dataset) -> Spec:
    """Return the specification of a feature store. The dataset's values replace nulls in `settings`.

    If the dataset's features were imported from .npy files, `weights` and `resize` of the specification
    have the value IMPORTED. Raises InputError if, for such a dataset, features.weights is set, or `finer`
    or `standardise` is true.
    """
    features = dataset.features
    values = chosen(settings, features) | {"standardise": features.standardise}
    if features.npy is None:
        return Spec(**values, resize=settings.resize, size=settings.size)
    if settings.weights is not None:
        raise InputError(
            f"params.yaml: features.weights is {settings.weights!r}, but the dataset's features are "
            f"imported from {features.npy!r}; set one of features.weights and features.npy to null"
        )
    if changes := [key for key in ("finer", "standardise") if values[key]]:
        raise InputError(
            f"params.yaml: features imported from {features.npy!r} cannot be changed; "
            f"set features.{changes[0]}: false"
        )
    return Spec(**values | {"weights": IMPORTED}, resize=IMPORTED, size=settings.size)
