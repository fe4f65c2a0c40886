"""Compute the features of new images as they were computed for the model's training.

C: channels; H, W: height and width.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from models.backbones.backbone import Backbone, for_inference
from pipeline.compute import devices
from pipeline.config.store_contents import PixelSpec, Spec
from pipeline.datasets.images import ORIENTATION, converted, decode, read_bytes
from pipeline.features.preprocessing import RESIZES
from pipeline.io.errors import InputError

BATCH = 32  # images, as in extraction
Picture = str | Path | bytes | Image.Image | np.ndarray
"""A file's path, its bytes, or an image in memory (an array: uint8, (H, W, 3))."""


class Features:
    """Conversion of images to a model's input, in the precision of the training features.

    A "squashed" image is an image that is resized to the model's input size. A model with a backbone reads
    the feature grids of squashed images. A model without a backbone reads the squashed images.
    """

    def __init__(self, network: Backbone | None, spec: Spec | PixelSpec, precision: str):
        self.device, self.spec, self.precision = devices.device(), spec, precision
        self.network = None
        if network is not None:
            dtype = devices.precision(precision, self.device)
            self.network = for_inference(network, dtype).to(self.device)

    def squashed(self, picture: Picture, name: str = "the image") -> np.ndarray:
        """Return an image, opened by `opened` and resized to the model's input size: uint8, (3, H, W)."""
        return RESIZES[self.spec.resize](opened(picture, name), self.spec.squashed).transpose(2, 0, 1)

    @torch.inference_mode()
    def grids(self, images: Sequence[np.ndarray], names: Sequence[str]) -> Tensor:
        """Return the feature grids of squashed images, on the device: float16, (images, C, H, W).

        Without a backbone, return the images as uint8. Raises InputError if an image's features overflow
        float16.
        """
        if self.network is None:
            return torch.from_numpy(np.stack(images)).to(self.device)
        parts = []
        for start in range(0, len(images), BATCH):
            batch = torch.from_numpy(np.stack(images[start : start + BATCH]))
            parts.append(self.network(batch.to(self.device)).half().contiguous())
        grids = torch.cat(parts)
        for name, finite in zip(names, grids.isfinite().flatten(1).all(1).tolist(), strict=True):
            if not finite:
                raise InputError(f"the features of {name} overflow float16; use another image")
        return grids


def opened(picture: Picture, name: str = "the image") -> Image.Image:
    """Open an image as RGB, like a dataset's images. Raises InputError if the image cannot be opened."""
    if isinstance(picture, str | Path):
        return decode(read_bytes(Path(picture)), str(picture))
    if isinstance(picture, bytes):
        return decode(picture, name)
    if isinstance(picture, Image.Image):
        return converted(picture, name)
    if not isinstance(picture, np.ndarray):
        raise InputError(f"{name} is a {type(picture).__name__}, not a path, bytes, a PIL image or an array")
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise InputError(f"{name} is {picture.dtype} of shape {picture.shape}, not uint8 of shape (H, W, 3)")
    return Image.fromarray(picture)


def rotation_warning(before: Image.Image, after: Image.Image) -> str | None:
    """Return a warning if two opened images have different EXIF orientations; else None."""
    sides = [picture.info.get(ORIENTATION, 1) for picture in (before, after)]
    if sides[0] == sides[1]:
        return None
    return (
        f"the EXIF orientation of before is {sides[0]}, of after {sides[1]}; both are read as stored, so "
        "one may be sideways. To rotate the pixels: magick mogrify -auto-orient FILE"
    )
