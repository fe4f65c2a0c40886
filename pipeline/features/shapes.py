"""The shape of what a model reads of an image, by what decides it."""

from models.backbones import backbone
from pipeline.config.store_contents import PixelSpec, Spec
from pipeline.io.errors import InputError


def grid_shape(spec: Spec) -> tuple[int, int, int]:
    """Channels, height and width of an image's feature grid. Raises InputError for no such network."""
    try:
        channels = backbone.channels(spec.backbone, spec.stride, spec.finer)
    except ValueError as error:
        raise InputError(f"features.backbone: {error}; name another, or another stride") from None
    cells = spec.size // spec.stride
    return channels, cells, cells


def input_shape(spec: Spec | PixelSpec) -> tuple[int, int, int]:
    """Channels, height and width of what a model reads of an image."""
    return (3, spec.height, spec.width) if isinstance(spec, PixelSpec) else grid_shape(spec)
