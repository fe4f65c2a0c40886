"""Load the backbone that computed a model's features, from a repository or from a package of weights.

The statistics that standardise the backbone's channels are in the repository's feature store, or in the
package. The backbone's weights may be in the package; otherwise they are loaded as in feature extraction.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import torch
from pydantic import ConfigDict
from safetensors.torch import load_file, save_file
from torch import Tensor

from models.backbones.backbone import Backbone
from pipeline.config.store_contents import GRID, IMAGENET, IMPORTED, STATISTICS, Spec
from pipeline.features import backbone_weights
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
    channel statistics of the store.
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
    """Return the backbone of the package in `folder`, and how it was used for the training features.

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
