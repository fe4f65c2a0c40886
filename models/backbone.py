"""ResNet-101 (He et al., 2016) cut after its third or fourth stage: image -> feature grid."""

from collections.abc import Iterable
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torchvision.models import resnet101
from torchvision.models.resnet import Bottleneck

CHANNELS = {"layer3": 1024, "layer4": 2048}
STRIDE = {"layer3": 16, "layer4": 32}
MEAN = (0.485, 0.456, 0.406)  # ImageNet's, of RGB in 0..1
STD = (0.229, 0.224, 0.225)
NORMS = {"bn1": "conv1", "bn2": "conv2", "bn3": "conv3", "1": "0"}  # torchvision's names: what each follows
# of random weights; measured: benchmarks/README.md, "Features that keep where things are"
SMOOTHING = 1.5  # pixels: the deviation of the Gaussian that smooths the first filters
HUE = 2.0  # how much more of a pixel's difference from gray than of its brightness the first filters take
BLUR = (1.0, 2.0, 1.0)  # binomial, each way


class Backbone(nn.Module):
    """uint8 RGB images (B x 3 x S x S) -> features (B x C x S/16 x S/16; S/32 for layer4)."""

    mean: Tensor
    std: Tensor

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
        kept = self.stages.get_parameter("conv1.weight").dtype
        return self.stages(pixels.to(kept, memory_format=torch.channels_last))


def untrained_backbone(layer: str, seed: int) -> Backbone:
    """Random weights that keep what a picture shows where it shows it, in evaluation mode.

    Residual branches begin at nothing (Goyal et al., 2017), but for those that halve the grid: there the
    shortcut would see one position of four, so the branch carries everything, blurred before it is halved
    (Zhang, 2019), and a camera that moved by less than a cell changes less. The first filters are smooth,
    for the same reason. Each channel is standardised at the end: random ReLU features share a large mean,
    under which attention between two images learns nothing.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = Backbone(layer)
    backbone.stages.add_module("standardise", _standardising(layer))
    with torch.no_grad():
        _smooth(backbone.stages.get_parameter("conv1.weight"))
        for module in backbone.modules():
            if isinstance(module, Bottleneck):
                _carry(module)
    return backbone.eval()


def _smooth(filters: Tensor) -> None:
    """Low-pass the filters, O x 3 x k x k, and weigh hue above brightness."""
    k = filters.shape[-1]
    taps = torch.exp(-((torch.arange(k) - k // 2) ** 2) / (2 * SMOOTHING**2))
    kernel = torch.outer(taps, taps) / taps.sum() ** 2
    smooth = F.conv2d(filters.flatten(0, 1)[:, None], kernel[None, None], padding=k // 2).view_as(filters)
    brightness = smooth.mean(1, keepdim=True)  # O x 1 x k x k
    filters.copy_(brightness + HUE * (smooth - brightness))


def _carry(block: Bottleneck) -> None:
    """A block that halves the grid carries all in its branch, blurred; any other block in its shortcut."""
    halves = block.stride > 1
    nn.init.constant_(block.bn3.weight, float(halves))
    if halves:
        nn.init.zeros_(block.downsample[1].weight)
        taps = torch.tensor(BLUR)
        mixed = block.conv2.weight.sum((2, 3), keepdim=True)  # O x I x 1 x 1: random, as it was
        block.conv2.weight.copy_(mixed * torch.outer(taps, taps) / taps.sum() ** 2)


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
    the features at the end stays: it follows a ReLU and a sum. Blocks that add nothing are left out.
    Weights lie as channels_last.
    """
    fast = deepcopy(backbone).eval()
    for stage in fast.stages:
        if isinstance(stage, nn.Sequential):
            for name, block in list(stage.named_children()):
                if adds_nothing(block):
                    setattr(stage, name, nn.Identity())
    for module in list(fast.modules()):
        for name, norm in list(module.named_children()):
            before = getattr(module, NORMS.get(name, ""), None)
            if isinstance(norm, nn.BatchNorm2d) and isinstance(before, nn.Conv2d):
                setattr(module, NORMS[name], fuse_conv_bn_eval(before, norm))
                setattr(module, name, nn.Identity())
    for module in fast.modules():
        if isinstance(module, nn.Conv2d):  # means and deviations keep float32
            module.to(dtype).to(memory_format=torch.channels_last)
    return fast.requires_grad_(False)


def adds_nothing(block: nn.Module) -> bool:
    """Of a block on an untouched shortcut: relu(x + 0) is x, for x is what a ReLU gave."""
    if not isinstance(block, Bottleneck) or block.downsample is not None:
        return False
    return not (block.bn3.weight.any() or block.bn3.bias.any())
