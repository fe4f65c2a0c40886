"""EfficientNet-Lite (Google, 2020), which computes feature maps.

The layers and the names of their tensors are those of timm's models tf_efficientnet_lite0 to 4. They are
here too, because importing timm takes as long as importing torch, and EfficientNet-Lite0 is the default.
B: number of images, S x S pixels each; s: stride of a map; C: channels; H, W: height and width.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.backbones.feature_maps import Description

# name -> (factor of the channels, factor of the blocks of a stage)
FACTORS = {
    "tf_efficientnet_lite0": (1.0, 1.0),
    "tf_efficientnet_lite1": (1.0, 1.1),
    "tf_efficientnet_lite2": (1.1, 1.2),
    "tf_efficientnet_lite3": (1.2, 1.4),
    "tf_efficientnet_lite4": (1.4, 1.8),
}
# blocks of a stage, their kernel, stride of the first block, factor of the inner channels, channels
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
LAST_STAGES = {2: 0, 4: 1, 8: 2, 16: 4, 32: 6}  # stride -> the last stage whose map has this stride
STEM, HEAD, CLASSES = 32, 1280, 1000  # channels after the first and last convolution; classes of ImageNet
MEAN = STD = (0.5, 0.5, 0.5)
EPSILON = 1e-3  # of batch norms, as in TensorFlow


class SameConv2d(nn.Conv2d):
    """Convolution with TensorFlow's padding "SAME": of an odd number of cells, one more is at the end.

    A CPU without gradients pads both ends equally and starts the kernel with a row and a column of zeros.
    The sums are the same to the bit, without a padded copy of the input (a tenth of an extraction's time).
    """

    def forward(self, x: Tensor) -> Tensor:
        sides = zip(x.shape[-2:], self.kernel_size, self.stride, strict=True)
        down, across = (
            max((math.ceil(side / stride) - 1) * stride + kernel - side, 0) for side, kernel, stride in sides
        )
        if x.device.type == "cpu" and not torch.is_grad_enabled():
            shifted = F.pad(self.weight, (across % 2, 0, down % 2, 0))
            ends = (down + 1) // 2, (across + 1) // 2
            return F.conv2d(x, shifted, self.bias, self.stride, ends, 1, self.groups)
        padded = F.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2))
        return F.conv2d(padded, self.weight, self.bias, self.stride, 0, 1, self.groups)


class Block(nn.Module):
    """Inverted residual block: expand the channels, convolve each by itself, and project.

    A block without expansion has no first convolution. The input is added to the output if both have the
    same shape.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        inner = in_channels * expansion
        self.is_residual = stride == 1 and in_channels == out_channels
        self.expands = expansion > 1
        depthwise = _convolution(inner, inner, kernel, stride, groups=inner)
        if self.expands:
            self.conv_pw = _convolution(in_channels, inner)
            self.bn1 = _norm(inner)
            self.conv_dw = depthwise
            self.bn2 = _norm(inner)
            self.conv_pwl = _convolution(inner, out_channels)
            self.bn3 = _norm(out_channels)
        else:
            self.conv_dw = depthwise
            self.bn1 = _norm(inner)
            self.conv_pw = _convolution(inner, out_channels)
            self.bn2 = _norm(out_channels)
        self.act = nn.ReLU6(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        if self.expands:
            inner = self.act(self.bn2(self.conv_dw(self.act(self.bn1(self.conv_pw(x))))))
            projected = self.bn3(self.conv_pwl(inner))
        else:
            projected = self.bn2(self.conv_pw(self.act(self.bn1(self.conv_dw(x)))))
        return projected + x if self.is_residual else projected


class EfficientNetLite(nn.Module):
    """The stages up to the map of the largest of `strides`; all stages and the head if `strides` is empty.

    The input is images, (B, 3, S, S). The output is a list of maps, (B, C, S/s, S/s), from the smallest
    stride s to the largest.
    """

    def __init__(self, name: str, strides: tuple[int, ...] = ()):
        super().__init__()
        self.ends = [LAST_STAGES[stride] for stride in strides]
        stages = _stages(name)
        self.conv_stem = _convolution(3, STEM, 3, 2)
        self.bn1 = _norm(STEM)
        self.act = nn.ReLU6(inplace=True)
        self.blocks = nn.Sequential(*stages[: self.ends[-1] + 1 if self.ends else None])
        if not self.ends:
            self.conv_head = _convolution(_channels(name)[-1], HEAD)
            self.bn2 = _norm(HEAD)
            self.classifier = nn.Linear(HEAD, CLASSES)

    def forward(self, images: Tensor) -> list[Tensor]:
        x, maps = self.act(self.bn1(self.conv_stem(images))), []
        for number, stage in enumerate(self.blocks):
            x = stage(x)
            if number in self.ends:
                maps.append(x)
        return maps


class LiteMaps(nn.Module):
    """EfficientNet-Lite with the names of tensors that a cut model of timm has: they begin with "inner."."""

    def __init__(self, name: str, strides: tuple[int, ...]):
        super().__init__()
        self.inner = EfficientNetLite(name, strides)

    def forward(self, images: Tensor) -> list[Tensor]:
        maps: list[Tensor] = self.inner(images)
        return maps


def describe(name: str) -> Description:
    """Return the description of the network `name`, a key of FACTORS."""
    channels = _channels(name)
    return Description({stride: channels[stage] for stride, stage in LAST_STAGES.items()}, MEAN, STD)


def cut(name: str, strides: tuple[int, ...]) -> nn.Module:
    """Build a network with random weights, which returns a feature map for each of `strides`, ascending."""
    with torch.random.fork_rng(devices=[]):  # the initial weights are not used
        return LiteMaps(name, strides)


def tensor_names(name: str) -> list[str]:
    """Return the names of the complete network's tensors, in timm's order."""
    with torch.device("meta"):  # tensors have shapes but no values
        return list(EfficientNetLite(name).state_dict())


def _stages(name: str) -> list[nn.Sequential]:
    """Return the stages of a network; the first and the last one always have one block."""
    stages, before, factor = [], STEM, FACTORS[name][1]
    for (blocks, kernel, stride, expansion, _), after in zip(STAGES, _channels(name), strict=True):
        count = blocks if blocks == 1 else math.ceil(blocks * factor)
        sides = [(before, stride), *[(after, 1)] * (count - 1)]
        stages.append(nn.Sequential(*(Block(side, after, kernel, step, expansion) for side, step in sides)))
        before = after
    return stages


def _channels(name: str) -> list[int]:
    """Return the channels of each stage: multiples of 8, at most a tenth below the exact numbers."""
    exact = [FACTORS[name][0] * channels for *_, channels in STAGES]
    rounded = [max(8, int(number + 4) // 8 * 8) for number in exact]
    return [near + 8 * (near < 0.9 * number) for near, number in zip(rounded, exact, strict=True)]


def _convolution(
    in_channels: int, out_channels: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> nn.Conv2d:
    if stride > 1:
        return SameConv2d(in_channels, out_channels, kernel, stride, groups=groups, bias=False)
    return nn.Conv2d(in_channels, out_channels, kernel, padding=kernel // 2, groups=groups, bias=False)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, EPSILON)
