"""Compute the features of new images as they were computed for the model's training.

The backbone and its channels' statistics are loaded from a repository or from a package of weights. The
statistics are in the repository's feature store, or in the package. The backbone's weights may be in the
package; otherwise they are loaded as in feature extraction.
C: channels; H, W: height and width.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from PIL import Image
from pydantic import ConfigDict
from safetensors.torch import load_file, save_file
from torch import Tensor

from models.backbones.backbone import Backbone, for_inference
from pipeline.compute import devices
from pipeline.config.store_contents import GRID, IMAGENET, IMPORTED, STATISTICS, PixelSpec, Spec
from pipeline.datasets.images import ORIENTATION, converted, decode, read_bytes
from pipeline.features import backbone_weights
from pipeline.features.preprocessing import RESIZES
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.records import plain
from pipeline.weights.model_description import Trained
from pipeline.weights.tensor_checks import check_finite, tensors_in_header

SOURCE, WEIGHTS, CHANNELS = "features.yaml", "backbone.safetensors", "statistics.safetensors"
REMEDY = "bring the package again, whole"
REMAKE = "run `dvc repro extract` to make it again"


@dataclass(frozen=True)
class FeatureSource:
    """How a model's features are computed: the backbone's weights, and the precision (features.yaml)."""

    weights_id: str  # a hash, as in the store; "pixels" if the model reads pixels
    precision: Literal["float32", "bfloat16"]
    carried: bool = False  # True if the package contains the backbone's weights

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")


def of_lab(trained: Trained, spec: Spec, lab: Path) -> tuple[Backbone, FeatureSource]:
    """Return the backbone whose features `trained` was trained on, with its weights' hash and precision.

    `lab` is the root of the repository. Raises InputError if the backbone is not available.
    """
    path = lab / f"data/features/{trained.recipe.dataset}/{GRID}.zarr"
    if spec.weights == IMPORTED:
        raise InputError(
            f"{path} was imported from .npy files, and the backbone that made them is unknown here: "
            "features of other images cannot be made; train with a backbone's features"
        )
    store = FeatureStore(path, expected=trained.recipe.features)
    trained.check_store(store)
    return of_store(store, spec, lab)


def of_store(store: FeatureStore, spec: Spec, lab: Path) -> tuple[Backbone, FeatureSource]:
    """Return the backbone that computed the features in `store`, and its FeatureSource.

    The FeatureSource has the id of the backbone's weights, and the precision. The backbone has the
    channel statistics of the store. `spec` has the settings of the features. `lab` is the repository's
    root, to which the path `spec.weights` is relative. Raises InputError if the weights are missing,
    or did not compute these features.
    """
    path, attributes = Path(store.location.name), store.attributes
    fields = {key: attributes.get(key) for key in ("weights_id", "precision")}
    source = plain(path, FeatureSource, fields, REMAKE)
    # stages name a file of weights by its path from the laboratory's root
    local_spec = spec if spec.weights == IMAGENET else replace(spec, weights=str(lab / spec.weights))
    network, _ = backbone_weights.load(local_spec)
    _check_identity(network, source, local_spec.weights, path)
    if network.standardise is not None:
        numbers = plain(path, dict[str, list[float]], attributes.get(STATISTICS), REMAKE)
        _set_statistics(network, {key: torch.tensor(values) for key, values in numbers.items()}, path)
    return network, source


def of_package(folder: Path, spec: Spec) -> tuple[Backbone, FeatureSource]:
    """Return the backbone of the package in `folder`, and its FeatureSource: weights' id and precision.

    Raises InputError if the backbone is not available.
    """
    source = plain(folder / SOURCE, FeatureSource, read_yaml(folder / SOURCE, REMEDY, foreign=True), REMEDY)
    if source.carried:
        origin = str(folder / WEIGHTS)
        network = backbone_weights.untrained(spec)
        backbone_weights.filled(network, _tensors(folder / WEIGHTS), spec.backbone, origin)
    else:
        origin = spec.weights
        network, _ = backbone_weights.load(spec)
    _check_identity(network, source, origin, folder)
    if network.standardise is not None:
        _set_statistics(network, _tensors(folder / CHANNELS), folder / CHANNELS)
    return network, source


def pack(folder: Path, network: Backbone, source: FeatureSource, carried: bool) -> FeatureSource:
    """Write the files of a backbone to a package in `folder`. Return `source`, with its field `carried` set.

    The files are the channel statistics, if the channels are standardised, and, if `carried` is True, the
    backbone's weights.
    """
    if network.standardise is not None:
        save_file(network.standardise.state_dict(), folder / CHANNELS)
    if carried:
        state = network.network.state_dict()
        save_file({name: _halved_if_exact(tensor) for name, tensor in state.items()}, folder / WEIGHTS)
    return replace(source, carried=carried)


def _halved_if_exact(tensor: Tensor) -> Tensor:
    half = tensor.half()
    return (half if torch.equal(half.to(tensor.dtype), tensor) else tensor).contiguous()


def _check_identity(network: Backbone, expected: FeatureSource, source: str, owner: Path) -> None:
    if (identity := backbone_weights.identity(network)) != expected.weights_id:
        raise InputError(
            f"{source} holds {identity}; {owner} was made with features of {expected.weights_id}: "
            "bring the weights that made them"
        )


def _set_statistics(network: Backbone, statistics: dict[str, Tensor], path: Path) -> None:
    standardise = network.standardise
    assert standardise is not None
    for key, channels in standardise.state_dict().items():
        tensor = statistics.get(key)
        if tensor is None or tensor.shape != channels.shape or not tensor.isfinite().all():
            raise InputError(f"{path} lacks the {key} of {len(channels)} channels; {REMEDY}")
    if not (statistics["deviation"] > 0).all():
        raise InputError(f"{path}: a deviation is not above 0; {REMEDY}")
    standardise.load_state_dict({key: statistics[key].float() for key in standardise.state_dict()})


def _tensors(path: Path) -> dict[str, Tensor]:
    tensors_in_header(path, REMEDY)
    tensors = dict(load_file(path))
    check_finite(tensors, path, REMEDY)
    return tensors


BATCH = 32  # images, as in extraction
ImageInput = str | Path | bytes | Image.Image | np.ndarray
"""A file's path, its bytes, or an image in memory (an array: uint8, (H, W, 3), RGB; OpenCV reads BGR)."""


class FeatureInput:
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

    def squashed(self, image: ImageInput, name: str = "the image") -> np.ndarray:
        """Open an image in the model's input size, uint8 (3, H, W); `name`: in error messages."""
        return RESIZES[self.spec.resize](opened(image, name), self.spec.squashed).transpose(2, 0, 1)

    @torch.inference_mode()
    def grids(self, images: Sequence[np.ndarray], names: Sequence[str]) -> Tensor:
        """Return the feature grids of images, on the device: float16, (images, C, H, W).

        `images` are results of the method `squashed`: uint8, resized to the model's input size. `names` are
        for error messages. Without a backbone, return the images themselves as uint8. Raises InputError if
        an image's features overflow float16.
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


def opened(image: ImageInput, name: str = "the image") -> Image.Image:
    """Open an image as RGB, like a dataset's images. Raises InputError if the image cannot be opened."""
    if isinstance(image, str | Path):
        return decode(read_bytes(Path(image)), str(image))
    if isinstance(image, bytes):
        return decode(image, name)
    if isinstance(image, Image.Image):
        return converted(image, name)
    if not isinstance(image, np.ndarray):
        raise InputError(f"{name} is a {type(image).__name__}, not a path, bytes, a PIL image or an array")
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise InputError(
            f"{name} is {image.dtype} of shape {image.shape}, not uint8 of shape (H, W, 3) in RGB"
        )
    return Image.fromarray(image)


def rotation_warning(before: Image.Image, after: Image.Image) -> str | None:
    """Return a warning if two opened images have different EXIF orientations; else None."""
    sides = [image.info.get(ORIENTATION, 1) for image in (before, after)]
    if sides[0] == sides[1]:
        return None
    return (
        f"the EXIF orientation of before is {sides[0]}, of after {sides[1]}; both are read as stored, so "
        "one may be sideways. To rotate the pixels: magick mogrify -auto-orient FILE"
    )
