"""ResNet-101 (He et al., 2016) of torchvision, cut after one of its stages: image -> feature maps.

B: images of S x S pixels; s: stride of a map; C: channels of a map.
"""

from torch import Tensor, nn
from torchvision.models import resnet101

STAGES = {4: "layer1", 8: "layer2", 16: "layer3", 32: "layer4"}  # by stride
CHANNELS = {4: 256, 8: 512, 16: 1024, 32: 2048}
NAMES = ("conv1", "bn1", "relu", "maxpool", *STAGES.values())
MEAN = (0.485, 0.456, 0.406)  # of ImageNet's RGB in 0..1
STD = (0.229, 0.224, 0.225)


class Stages(nn.Sequential):
    """Images, (B, 3, S, S), -> maps of the given strides s, (B, C, S/s, S/s) each, finest first."""

    def __init__(self, strides: tuple[int, ...]):
        super().__init__()
        resnet = resnet101(weights=None)
        self.kept = [STAGES[stride] for stride in strides]
        for name in NAMES[: NAMES.index(self.kept[-1]) + 1]:
            self.add_module(name, getattr(resnet, name))

    def forward(self, images: Tensor) -> list[Tensor]:
        x, maps = images, []
        for name, stage in self.named_children():
            x = stage(x)
            if name in self.kept:
                maps.append(x)
        return maps


def maps(name: str) -> dict[int, int]:
    """Return channels by stride."""
    return CHANNELS


def cut(name: str, strides: tuple[int, ...]) -> nn.Module:
    """Build the stages up to the last of these strides."""
    return Stages(strides)


def normalisation(name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of pixels."""
    return MEAN, STD
