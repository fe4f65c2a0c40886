"""ResNet-101 (He et al., 2016) cut after its third or fourth stage: image -> feature grid."""

from collections.abc import Iterable
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torchvision.models import resnet101
from torchvision.models.resnet import Bottleneck

CHANNELS = {"layer3": 1024, "layer4": 2048}
STRIDE = {"layer3": 16, "layer4": 32}
MEAN = (0.485, 0.456, 0.406)  # ImageNet's, of RGB in 0..1
STD = (0.229, 0.224, 0.225)
NORMS = {"bn1": "conv1", "bn2": "conv2", "bn3": "conv3", "1": "0"}  # torchvision's names: what each follows
DAMPED_GAIN = 0.1  # measured: 0.90 of cells' colours readable by a linear probe, 0.32 without


class Backbone(nn.Module):
    """uint8 RGB images (B x 3 x S x S) -> features (B x C x S/16 x S/16; S/32 for layer4)."""

    def __init__(self, layer: str):
        super().__init__()
        resnet = resnet101(weights=None)
        stages = ["conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4"]
        self.stages = nn.Sequential()
        for name in stages[: stages.index(layer) + 1]:
            self.stages.add_module(name, getattr(resnet, name))
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(STD).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        pixels = (images.float() / 255 - self.mean) / self.std
        kept = self.stages.conv1.weight.dtype
        return self.stages(pixels.to(kept, memory_format=torch.channels_last))


def untrained_backbone(layer: str, seed: int) -> Backbone:
    """Random weights with the last batch-norm gain of every bottleneck damped, in evaluation mode.

    Each channel is standardised at the end: random ReLU features share a large mean, under which
    attention between two images learns nothing (measured: benchmarks/README.md).
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = Backbone(layer)
    backbone.stages.add_module("standardise", _standardising(layer))
    for module in backbone.modules():
        if isinstance(module, Bottleneck):
            nn.init.constant_(module.bn3.weight, DAMPED_GAIN)
    return backbone.eval()


def _standardising(layer: str) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(CHANNELS[layer], affine=False)


def calibrate(backbone: Backbone, images: Iterable[Tensor]) -> Backbone:
    """The same backbone, in evaluation mode, its batch statistics those of `images` alone.

    `images` are batches of uint8 B x 3 x S x S, where the backbone is; statistics are the mean over them.
    """
    for module in backbone.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None  # the cumulative mean over the batches
    backbone.train()
    with torch.no_grad():
        for batch in images:
            backbone(batch)
    return backbone.eval()


def random_backbone(layer: str, seed: int, images: Iterable[Tensor]) -> Backbone:
    """Random weights that keep what a picture shows, for use where no trained ones can be had.

    Batch statistics are those of `images` (batches of uint8 B x 3 x S x S); without them activations
    overflow float16.
    """
    return calibrate(untrained_backbone(layer, seed), images)


def load_backbone(layer: str, weights: dict[str, Tensor]) -> Backbone:
    """A backbone with the weights of torchvision's resnet101 (its later stages and `fc` are left out).

    Weights that hold `standardise`, as those of the stage `backbone` do, get that layer too.
    Raises ValueError naming the tensors that are missing or have another shape.
    """
    backbone = Backbone(layer)
    if "standardise.running_mean" in weights:
        backbone.stages.add_module("standardise", _standardising(layer))
    wanted = backbone.stages.state_dict()
    for name, tensor in wanted.items():
        # released files older than this buffer lack it, and evaluation does not read it
        if name.endswith("num_batches_tracked"):
            weights = {name: tensor, **weights}
        if name not in weights:
            raise ValueError(f"tensor {name} is missing")
        if weights[name].shape != tensor.shape:
            raise ValueError(f"tensor {name} is {tuple(weights[name].shape)}, not {tuple(tensor.shape)}")
    backbone.stages.load_state_dict({name: weights[name] for name in wanted})
    return backbone.eval()


def for_inference(backbone: Backbone, dtype: torch.dtype) -> Backbone:
    """A copy that computes the same in `dtype`, without the batch norms that follow a convolution.

    y = (w * x + b - mean) / sqrt(var + eps) * gain + shift is itself a convolution. What standardises
    the features at the end stays: it follows a ReLU and a sum. Weights lie as channels_last.
    """
    fast = deepcopy(backbone).eval()
    for module in list(fast.modules()):
        for name, norm in list(module.named_children()):
            before = getattr(module, NORMS.get(name, ""), None)
            if isinstance(norm, nn.BatchNorm2d) and isinstance(before, nn.Conv2d):
                setattr(module, NORMS[name], fuse_conv_bn_eval(before, norm))
                setattr(module, name, nn.Identity())
    for module in fast.modules():
        if isinstance(module, nn.Conv2d):  # means and deviations keep float32
            module.to(dtype=dtype, memory_format=torch.channels_last)
    return fast.requires_grad_(False)
