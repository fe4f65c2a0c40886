"""torchvision's ResNet-101 (He et al., 2016), cut after one of its stages, as a source of feature maps.

B: number of images, S x S pixels each; s: stride of a map; C: channels of a map.
"""

from torch import Tensor, nn
from torchvision.models import resnet101

STAGES = {4: "layer1", 8: "layer2", 16: "layer3", 32: "layer4"}  # stride -> name of the stage
CHANNELS = {4: 256, 8: 512, 16: 1024, 32: 2048}  # stride -> channels of the map
NAMES = ("conv1", "bn1", "relu", "maxpool", *STAGES.values())
MEAN = (0.485, 0.456, 0.406)  # mean of ImageNet's RGB values, which are in 0..1
STD = (0.229, 0.224, 0.225)  # their standard deviation


class Stages(nn.Sequential):
    """First ResNet-101 stages; input: images, (B, 3, S, S); output: maps, (B, C, S/s, S/s), finest first."""

    def __init__(self, strides: tuple[int, ...]):
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
