"""What a model reads of any picture, made as the weights' metadata say, and as `extract` makes it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from models.backbones.backbone import Backbone, for_inference
from pipeline.compute import devices
from pipeline.config.store_contents import PixelSpec, Spec
from pipeline.datasets.images import TURNED, converted, decode, read_bytes
from pipeline.features.preprocessing import RESIZES
from pipeline.io.errors import InputError

BATCH = 32  # images at once, as extraction has them
Picture = str | Path | bytes | Image.Image | np.ndarray
"""A file's path, its bytes, or a picture in memory (an array: uint8, H x W x 3)."""


class Features:
    """How pictures become feature grids, by a backbone in the precision that the weights were trained with.

    Without a backbone, of a model that reads pixels, they are squashed, and that is all.
    """

    def __init__(self, network: Backbone | None, spec: Spec | PixelSpec, precision: str):
        self.device, self.spec, self.precision = devices.device(), spec, precision
        self.network = None
        if network is not None:
            dtype = devices.precision(precision, self.device)
            self.network = for_inference(network, dtype).to(self.device)

    def squashed(self, picture: Picture, name: str = "the picture") -> np.ndarray:
        """A picture of the size that is read, uint8 3 x H x W. Raises InputError where it does not open."""
        return RESIZES[self.spec.resize](opened(picture, name), self.spec.squashed).transpose(2, 0, 1)

    @torch.inference_mode()
    def grids(self, images: Sequence[np.ndarray], names: Sequence[str]) -> Tensor:
        """Feature grids of squashed pictures, images x C x H x W, float16, on the device; or their pixels.

        Raises InputError for a picture whose features overflow float16.
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
                raise InputError(f"the features of {name} overflow float16; use another picture")
        return grids


def opened(picture: Picture, name: str = "the picture") -> Image.Image:
    """A picture as RGB, by the rules of datasets. Raises InputError for one that does not open."""
    if isinstance(picture, str | Path):
        return decode(read_bytes(Path(picture)), str(picture))
    if isinstance(picture, bytes):
        return decode(picture, name)
    if isinstance(picture, Image.Image):
        return converted(picture, name)
    if not isinstance(picture, np.ndarray):
        raise InputError(
            f"{name} is a {type(picture).__name__}, not a path, bytes, a PIL picture or an array"
        )
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise InputError(f"{name} is {picture.dtype} of shape {picture.shape}, not uint8 of H x W x 3")
    return Image.fromarray(picture)


def turned(before: Image.Image, after: Image.Image) -> str | None:
    """Warning about two images, as `opened` gives them, whose files name different orientations."""
    sides = [picture.info.get(TURNED, 1) for picture in (before, after)]
    if sides[0] == sides[1]:
        return None
    return (
        f"the orientation (EXIF) of before is {sides[0]}, of after {sides[1]}; both are taken as stored, and "
        "one may be sideways. To turn their pixels: magick mogrify -auto-orient FILE"
    )
