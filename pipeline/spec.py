"""What a feature store holds: written into it, and demanded of it by whoever reads it."""

from dataclasses import dataclass

from pipeline import params


@dataclass(frozen=True)
class Spec:
    """Everything that decides an image's features, but for the image."""

    weights: str  # imagenet | random | FILE
    layer: str
    resize: str
    size: int  # pixels a side


def spec(settings: params.Features, dataset: params.Dataset) -> Spec:
    """What the parameters ask for; null weights are the dataset's own."""
    weights = dataset.features.weights if settings.weights is None else settings.weights
    return Spec(weights, settings.layer, settings.resize, settings.size)
