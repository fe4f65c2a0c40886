"""IDC-PCL's task on pairs of classes, without text: NABirds (its section on data expansion).

B pairs, N cells an image, C feature channels, D width, K classes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.idc_pcl.network import Network, PclSizes

CLASSES = 555  # of NABirds
MARGIN = 0.4  # images of different classes are alike up to this cosine for nothing


class ClassPairs(nn.Module):
    """What class each image is of, whether both are of one, and a contrast of all images of the batch."""

    def __init__(self, sizes: PclSizes, classes: int):
        super().__init__()
        self.classifier = nn.Linear(sizes.width, classes)
        self.aligner = nn.Linear(2 * sizes.width, 2)

    def forward(
        self, network: Network, before: Tensor, after: Tensor, classes: Tensor, same: Tensor
    ) -> dict[str, Tensor]:
        """The loss and both accuracies, of cells B x N x C of each image.

        `classes`: 2 x B, of the before and the after images; `same`: B, 1 where the pair is labelled as of
        one class.
        """
        singles = network.singles(before, after)  # 2B x (N+1) x D
        c, flat = singles[:, 0], classes.flatten()
        marks = network.paired(singles).unflatten(1, (2, -1))[:, :, 0].flatten(1)  # B x 2D
        named, aligned = self.classifier(c).float(), self.aligner(marks).float()
        unit = F.normalize(c.float(), dim=-1)
        alike = unit @ unit.T
        agree = flat[:, None] == flat
        contrast = torch.where(agree, 1 - alike, (alike - MARGIN).clamp(min=0)).mean()
        return {
            "class_pairs": F.cross_entropy(named, flat) + F.cross_entropy(aligned, same) + contrast,
            "class_accuracy": (named.argmax(-1) == flat).float().mean(),
            "same_accuracy": (aligned.argmax(-1) == same).float().mean(),
        }
