"""Files of random backbone weights: a small model of timm, and torchvision's ResNet-101."""

from pathlib import Path

import timm
import torch
from safetensors.torch import save_file
from torch import nn
from torchvision.models import resnet101

TINY = "test_efficientnet"  # timm's, of 80 tensors: 48 channels at stride 16, 32 at 8, 64 at 32


def spread(network: nn.Module) -> nn.Module:
    """Give each batch norm random statistics, gains and shifts, as in trained weights."""
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.2, 0.6)
            for tensor in (part.bias, part.running_mean):
                nn.init.normal_(tensor, std=0.1)
            nn.init.uniform_(part.running_var, 0.5, 2)
    return network


def write_tiny(path: Path, seed: int = 1, name: str = TINY) -> Path:
    """Write a file of the whole model, in timm's names."""
    torch.manual_seed(seed)
    save_file(spread(timm.create_model(name)).state_dict(), path)
    return path


def write_resnet101(path: Path, seed: int = 1) -> Path:
    """Write torchvision's untrained weights; residual branches are 0, because float16 would overflow."""
    torch.manual_seed(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(resnet101(weights=None, zero_init_residual=True).state_dict(), path)
    return path
