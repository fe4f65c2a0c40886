"""Backbone: a pretrained image network that is cut at the feature map of a given stride.

It computes the feature grid of an image. ResNet-101 (He et al., 2016) is torchvision's, EfficientNet-Lite is
ours, and other networks are timm's. For faster inference, batch norms are folded into the convolutions before
them. torchvision and timm are imported only for their networks, because importing them takes seconds.
B: number of images, S x S pixels each; s: stride; H x W = S/s x S/s: size of the grid; C: channels.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from models.backbones import efficientnet_lite
from models.backbones.efficientnet_lite import SameConv2d
from models.backbones.feature_maps import Description, spellings

STAGES = {4: "layer1", 8: "layer2", 16: "layer3", 32: "layer4"}  # stride -> name of the stage
CHANNELS = {4: 256, 8: 512, 16: 1024, 32: 2048}  # stride -> channels of the map
NAMES = ("conv1", "bn1", "relu", "maxpool", *STAGES.values())
MEAN = (0.485, 0.456, 0.406)  # mean of ImageNet's RGB values, which are in 0..1
STD = (0.229, 0.224, 0.225)  # their standard deviation


class ResNetStages(nn.Sequential):
    """First stages of ResNet-101, which compute feature maps from images, (B, 3, S, S).

    The output is a list with a map, (B, C, S/s, S/s), for each stride s, finest first. C depends on s.
    """

    def __init__(self, strides: tuple[int, ...]):
        from torchvision.models import resnet101

        super().__init__()
        resnet = resnet101(weights=None)
        self.stages = [STAGES[stride] for stride in strides]
        for name in NAMES[: NAMES.index(self.stages[-1]) + 1]:
            self.add_module(name, getattr(resnet, name))

    def forward(self, images: Tensor) -> list[Tensor]:
        x, maps = images, []
        for name, stage in self.named_children():
            x = stage(x)
            if name in self.stages:
                maps.append(x)
        return maps


Kinds = tuple[type[nn.Module], ...]


@dataclass(frozen=True)
class Foldable:
    """Classes of layers that can be folded. Subclasses are not folded: some change weights in forward."""

    convolutions: Kinds = (nn.Conv2d, SameConv2d)
    norms: Kinds = (nn.BatchNorm2d,)

    @property
    def all(self) -> Kinds:
        return self.convolutions + self.norms


def _foldable(network: nn.Module) -> Foldable:
    if not any(type(part).__module__.startswith("timm.") for part in network.modules()):
        return Foldable()
    from timm.layers.conv2d_same import Conv2dSame
    from timm.layers.norm_act import BatchNormAct2d

    return Foldable((*Foldable.convolutions, Conv2dSame), (*Foldable.norms, BatchNormAct2d))


class _Tracer(fx.Tracer):
    def __init__(self, leaves: Kinds):
        super().__init__()
        self.leaves = leaves

    def is_leaf_module(self, module: nn.Module, qualified: str) -> bool:
        return type(module) in self.leaves or super().is_leaf_module(module, qualified)


def fold(network: nn.Module) -> int | None:
    """Fold a network's batch norms into its convolutions; return their number; None if torch.fx fails.

    A batch norm is folded if no other layer uses the convolution's output, and if norm and convolution are
    called exactly once in the forward pass. The network is in evaluation mode.
    """
    kinds = _foldable(network)
    if not any(type(part) in kinds.norms for part in network.modules()):
        return 0
    try:
        graph = _Tracer(kinds.all).trace(network)
    except (fx.proxy.TraceError, TypeError, RuntimeError, ValueError, AttributeError):
        return None
    pairs = list(_pairs(network, graph, kinds))
    for before, after in pairs:
        convolution, norm = cast(nn.Conv2d, network.get_submodule(before)), network.get_submodule(after)
        network.set_submodule(before, fuse_conv_bn_eval(convolution, cast(nn.BatchNorm2d, norm)))
        # a batch norm of timm may contain its activation
        network.set_submodule(after, cast(nn.Module, getattr(norm, "act", nn.Identity())))
    return len(pairs)


def _pairs(network: nn.Module, graph: fx.Graph, kinds: Foldable) -> Iterator[tuple[str, str]]:
    """Yield (name of a convolution, name of the batch norm that can be folded into it)."""
    calls = Counter(
        id(network.get_submodule(str(node.target))) for node in graph.nodes if node.op == "call_module"
    )
    for node in graph.nodes:
        before = node.args[0] if node.args else None
        if not (isinstance(before, fx.Node) and _is(network, node, kinds.norms)):
            continue
        if not _is(network, before, kinds.convolutions):
            continue
        norm, convolution = (network.get_submodule(str(call.target)) for call in (node, before))
        called_once = calls[id(norm)] == calls[id(convolution)] == 1
        if called_once and len(before.users) == 1 and norm.running_var is not None:
            yield str(before.target), str(node.target)


def _is(network: nn.Module, node: fx.Node, kinds: Kinds) -> bool:
    return node.op == "call_module" and type(network.get_submodule(str(node.target))) in kinds


RESNET = "resnet101"  # from torchvision
FINER = 2  # a cell of the grid covers FINER x FINER cells of the finer map
ROUNDING = 1e-6  # a channel with a smaller deviation, relative to its mean, is constant


class Standardise(nn.Module):
    """Layer that subtracts each channel's stored mean and divides by its stored standard deviation.

    The method `take` sets both. Before that, the layer only converts to float32, its number type.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.mean = nn.Buffer(torch.zeros(channels))
        self.deviation = nn.Buffer(torch.ones(channels))

    def forward(self, features: Tensor) -> Tensor:
        return (features.float() - self.mean.view(-1, 1, 1)) / self.deviation.view(-1, 1, 1)

    def take(self, grids: Tensor) -> None:
        """Set each channel's mean and deviation from `grids`, (B, C, H, W); a deviation near 0 becomes 1."""
        variance, mean = torch.var_mean(grids.double(), dim=(0, 2, 3), correction=0)
        deviation = variance.sqrt()
        self.mean.copy_(mean)
        self.deviation.copy_(deviation.masked_fill(deviation <= ROUNDING * mean.abs(), 1.0))


class Backbone(nn.Module):
    """Network that maps uint8 RGB images, (B, 3, S, S), to features, (B, C, S/s, S/s), with the stride s.

    The constructor's argument `name` is "resnet101" or a name of a timm model. A new Backbone has
    random weights; `load` sets the pretrained weights. With `finer`, the network's map with stride s/2
    is also used: each cell of the output covers 2 x 2 cells of that map, which become further channels.
    With `standardise`, each channel is standardised by fixed statistics of the training images, which
    `take_statistics` sets. Raises ValueError if there is no network `name`, or if it lacks a map with a
    required stride.
    """

    folded: int | None = 0  # number of batch norms folded into convolutions; None: folding failed

    def __init__(self, name: str, stride: int, finer: bool = False, standardise: bool = False):
        super().__init__()
        self.channels = channels(name, stride, finer)
        strides = _strides(stride, finer)
        self.network = _cut(name, strides)
        description = describe(name)
        mean, std = torch.tensor(description.mean), torch.tensor(description.std)
        self.pixel_mean = nn.Buffer(mean.view(1, 3, 1, 1), persistent=False)
        self.pixel_std = nn.Buffer(std.view(1, 3, 1, 1), persistent=False)
        self.standardise = Standardise(self.channels) if standardise else None

    def forward(self, images: Tensor) -> Tensor:
        features = self.raw(images)
        return features if self.standardise is None else self.standardise(features)

    def raw(self, images: Tensor) -> Tensor:
        """Return the features of `images`, (B, 3, S, S), before standardisation."""
        pixels = (images.float() / 255 - self.pixel_mean) / self.pixel_std
        dtype = next(self.network.parameters()).dtype
        *finer_maps, features = self.network(pixels.to(dtype, memory_format=torch.channels_last))
        return torch.cat([features, *(F.pixel_unshuffle(map_, FINER) for map_ in finer_maps)], dim=1)


def channels(name: str, stride: int, finer: bool = False) -> int:
    """Return the number of channels of a network's features at this stride, or raise ValueError.

    With `finer`, each cell also has the channels of the 2 x 2 cells of half the stride.
    """
    channels_of = describe(name).channels
    for required in _strides(stride, finer):
        if required not in channels_of:
            strides = ", ".join(map(str, channels_of)) or "none"
            raise ValueError(f"{name} has no map of stride {required} (its strides: {strides})")
    return channels_of[stride] + (FINER**2 * channels_of[stride // FINER] if finer else 0)


def describe(name: str) -> Description:
    """Return the description of the network `name`. Raises ValueError if no network has this name."""
    if name == RESNET:
        return Description(CHANNELS, MEAN, STD)
    if name in efficientnet_lite.FACTORS:
        return efficientnet_lite.describe(name)
    from models.backbones import timm_maps

    return timm_maps.describe(name)


def _cut(name: str, strides: tuple[int, ...]) -> nn.Module:
    if name == RESNET:
        return ResNetStages(strides)
    if name in efficientnet_lite.FACTORS:
        return efficientnet_lite.cut(name, strides)
    from models.backbones import timm_maps

    return timm_maps.cut(name, strides)


def _strides(stride: int, finer: bool) -> tuple[int, ...]:
    return (stride // FINER, stride) if finer else (stride,)


def load(backbone: Backbone, weights: Mapping[str, Tensor]) -> Backbone:
    """Copy pretrained `weights` of the uncut network to `backbone`, and set it to evaluation mode.

    Raises ValueError, which names the tensor, if a tensor is missing or has another shape.
    """
    network = backbone.network.state_dict()
    renamed = {name: tensor for key, tensor in weights.items() for name in spellings(key)}
    for name, tensor in network.items():
        # old released files lack this counter, and evaluation does not use it
        if name.endswith("num_batches_tracked"):
            renamed.setdefault(name, tensor)
        if name not in renamed:
            raise ValueError(f"tensor {name} is missing")
        if renamed[name].shape != tensor.shape:
            raise ValueError(f"tensor {name} is {tuple(renamed[name].shape)}, not {tuple(tensor.shape)}")
    backbone.network.load_state_dict({name: renamed[name] for name in network})
    return backbone.eval()


def for_inference(backbone: Backbone, dtype: torch.dtype) -> Backbone:
    """Return a frozen copy in `dtype` and channels_last, with batch norms folded where possible."""
    fast = deepcopy(backbone).eval()
    fast.folded = fold(fast.network)
    fast.network.to(dtype).to(memory_format=torch.channels_last)
    return fast.requires_grad_(False)


@torch.inference_mode()
def take_statistics(backbone: Backbone, batches: Iterable[Tensor]) -> None:
    """Set mean and deviation of the layer `standardise`, if there is one, from batches of uint8 images."""
    if backbone.standardise is not None:
        backbone.standardise.take(torch.cat([backbone.raw(batch).float() for batch in batches]))
