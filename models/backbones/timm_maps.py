"""Models of timm (Wightman, 2019) by name, cut at given strides, as sources of feature maps.

Importing this module takes seconds, because timm imports all its models, torchvision and torch's compiler.
B: number of images, S x S pixels each; s: stride of a map; C: channels of a map.
"""

import difflib
import re
from functools import cache
from typing import Any

import timm
import torch
from torch import Tensor, nn

from models.backbones.feature_maps import Description


class Maps(nn.Module):
    """timm model that returns feature maps instead of class scores.

    The input is images, (B, 3, S, S). The output is a list of maps, (B, C, S/s, S/s), from the smallest
    stride s to the largest.
    """

    def __init__(self, network: nn.Module):
        super().__init__()
        self.inner = network
        self.channels_last = str(getattr(network, "output_fmt", "NCHW")).endswith("NHWC")

    def forward(self, images: Tensor) -> list[Tensor]:
        maps: list[Tensor] = self.inner(images)
        return [map_.permute(0, 3, 1, 2) for map_ in maps] if self.channels_last else maps


def describe(name: str) -> Description:
    """Return a model's description. Raises ValueError if timm has no such model, or cannot extract maps."""
    return _described(name)[0]


@cache
def _described(name: str) -> tuple[Description, dict[int, int]]:
    """Return a model's description, and timm's index of the map of each stride."""
    if not timm.is_model(name):
        similar = difflib.get_close_matches(name, timm.list_models(), n=3)
        hint = f" (near: {', '.join(similar)})" if similar else ""
        raise ValueError(f"timm has no model {name!r}{hint}")
    try:
        with torch.device("meta"):  # tensors have shapes but no values
            network: Any = timm.create_model(name, pretrained=False, features_only=True)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(f"timm cannot extract maps from {name} ({str(error).splitlines()[0]})") from None
    info, config = network.feature_info, network.pretrained_cfg
    # if several maps have the same stride, the dictionaries keep the last, which is the deepest
    index = dict(zip(info.reduction(), info.out_indices, strict=True))
    channels = dict(zip(info.reduction(), info.channels(), strict=True))
    side = config["input_size"][-1] if config["fixed_input_size"] else None
    return Description(channels, tuple(config["mean"]), tuple(config["std"]), side), index


def cut(name: str, strides: tuple[int, ...]) -> nn.Module:
    """Build the timm model `name` with random weights, up to a feature map for each ascending stride."""
    index = _described(name)[1]
    with torch.random.fork_rng(devices=[]):  # the initial weights are not used
        network = timm.create_model(
            name,
            pretrained=False,
            features_only=True,
            out_indices=tuple(index[stride] for stride in strides),
        )
    _drop_later_blocks(network)
    return Maps(network)


def _drop_later_blocks(network: Any) -> None:
    """Remove the blocks after the last map; timm keeps such blocks in some models, such as EfficientNet."""
    last = re.fullmatch(r"blocks\.(\d+)", network.feature_info.module_name()[-1])
    if last and isinstance(getattr(network, "blocks", None), nn.Sequential):
        network.blocks = network.blocks[: int(last[1]) + 1]
