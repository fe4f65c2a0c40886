"""Random backbones in a few kilobytes: the seed draws their filters again, and the statistics are kept.

A file holds the statistics of every batch norm that the features depend on, and some values of each filter:
another version of torch, or another machine, may draw other ones.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from models.backbone import Backbone, adds_nothing, untrained_backbone
from pipeline.errors import InputError

PROBES = 16  # values of each filter bank
PREFIX = "probe."
STATISTICS = ("running_mean", "running_var")


def packed(network: Backbone) -> dict[str, Tensor]:
    """What `unpacked` needs beside the seed: 70 kB in place of 110 MB."""
    norms = {f"{name}.{key}": getattr(norm, key) for name, norm in _norms(network) for key in STATISTICS}
    return norms | {PREFIX + name: _probe(filters) for name, filters in _filters(network)}


def unpacked(layer: str, seed: int, tensors: dict[str, Tensor], name: str) -> Backbone:
    """The backbone of that seed with these statistics.

    Raises InputError naming the file where its tensors do not fit, or where other filters are drawn here.
    """
    network = untrained_backbone(layer, seed)
    for place, filters in _filters(network):
        probe = tensors.get(PREFIX + place)
        if probe is None or not torch.allclose(probe, _probe(filters), rtol=1e-4, atol=1e-6):
            raise InputError(
                f"{name}: torch {torch.__version__} draws other random filters here than when it was "
                f"made ({place}); install the torch that the file beside it names, or make the weights anew"
            )
    for place, norm in _norms(network):
        for key in STATISTICS:
            found = tensors.get(f"{place}.{key}")
            if found is None or found.shape != getattr(norm, key).shape:
                raise InputError(f"{name} lacks the statistics {place}.{key}; bring the file again")
            getattr(norm, key).copy_(found)
    return network


def _norms(network: Backbone) -> Iterator[tuple[str, nn.BatchNorm2d]]:
    """Those that an image's features depend on, by name."""
    idle = tuple(f"{name}." for name, module in network.named_modules() if adds_nothing(module))
    for name, module in network.named_modules():
        if isinstance(module, nn.BatchNorm2d) and not name.startswith(idle):
            yield name, module


def _filters(network: Backbone) -> Iterator[tuple[str, Tensor]]:
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d):
            yield name, module.weight.detach()


def _probe(filters: Tensor) -> Tensor:
    return filters.flatten()[:: max(1, filters.numel() // PROBES)][:PROBES].clone()
