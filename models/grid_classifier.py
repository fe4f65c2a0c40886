"""A backbone with one linear head an attribute, by which it learns to name what each cell shows.

B images, C channels, H x W cells, K classes of an attribute.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.backbone import Backbone

LEFT_OUT = -1  # the label of a cell that says nothing about an attribute


class Namer(nn.Module):
    """uint8 images (B x 3 x S x S) -> logits of each attribute, by its name (B x H x W x K).

    `backbone` gives features (B x C x H x W); `classes` is K of each attribute.
    """

    def __init__(self, backbone: Backbone, channels: int, classes: Mapping[str, int]):
        super().__init__()
        self.backbone = backbone
        self.classes = dict(classes)
        self.heads = nn.Conv2d(channels, sum(classes.values()), kernel_size=1)  # all heads in one product

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        logits = self.heads(self.backbone(images)).permute(0, 2, 3, 1)  # B x H x W x (the sum of all K)
        return dict(zip(self.classes, logits.split(list(self.classes.values()), dim=-1), strict=True))


def losses(logits: Mapping[str, Tensor], labels: Mapping[str, Tensor]) -> Tensor:
    """The cross-entropy of each attribute, the mean over its labelled cells; 0 where no cell is.

    `labels` are B x H x W int64, LEFT_OUT where a cell does not count. Returns one number an attribute,
    in the order of `logits`.
    """
    return torch.stack([_cross_entropy(logits[name], labels[name]) for name in logits])


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    # as rows: over B x K x H x W a GPU has no deterministic cross-entropy
    rows, wanted = logits.flatten(0, 2).float(), labels.flatten()  # BHW x K, BHW
    total = F.cross_entropy(rows, wanted, ignore_index=LEFT_OUT, reduction="sum")
    return total / (wanted != LEFT_OUT).sum().clamp(min=1)
