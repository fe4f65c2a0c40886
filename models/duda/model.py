"""DUDA: dual dynamic attention (Park, Darrell, Rohrbach, "Robust Change Captioning", ICCV 2019).

Each image has its own attention map, which is computed from the image and the difference of both images.
Equations: docs/methods.md, "DUDA".
B: pairs; N: cells of an image; C: channels of the features; K: width of a cell, which is C, or C + 2 with
coordinates; M: channels from which a map is computed.
"""

import torch
from torch import Tensor, nn

from models.common.captioner import Captioner
from models.common.dynamic_speaker import (
    LOSS,
    RELEASED,
    AttendedDifference,
    AttentionMap,
    DynamicCaptioner,
    SpeakerSizes,
    SpeakerSwitches,
    attended,
)
from models.common.entry import PLAIN, Entry
from models.common.grid_embedding import GridCells
from models.initialisation.counterpart_weights import OUTPUT_SCALE

# initialisation `differing`: a cell has the weight 1/2 if its difference X_diff is 1.5 times as long as on
# average (STEEPNESS and LEAST: AttentionMap.initialise)
STEEPNESS, LEAST = 12.5, 0.6


class DualAttention(nn.Module):
    """DUDA's dual attention: an image's vector is the sum or mean of cells, weighted by the image's map."""

    def __init__(self, width: int, sizes: SpeakerSizes, switches: SpeakerSwitches, dropout: float):
        super().__init__()
        self.map = AttentionMap(2 * width, sizes.maps, dropout)
        self.pooled = switches.pooled
        if switches.first_weights == "differing":
            attend_to_differences(self.map)

    def forward(self, before: Tensor, after: Tensor) -> AttendedDifference:
        """Attend to cells, (B, N, K) each; `memory`, (B, 3, K), is l_bef, l_aft - l_bef and l_aft."""
        difference = after - before
        maps = [self.map(image, difference) for image in (before, after)]  # (B, N) each
        l_bef, l_aft = attended(maps[0], before, self.pooled), attended(maps[1], after, self.pooled)
        memory = torch.stack([l_bef, l_aft - l_bef, l_aft], 1)  # (B, 3, K)
        return AttendedDifference(memory, before, after, torch.stack(maps, 1))


@torch.no_grad()
def attend_to_differences(cells: AttentionMap) -> None:
    """Initialise an AttentionMap so that its attention is high where the images differ (not published).

    Let x be the difference of the images at a cell. Half of the cell's channels are ReLU(w x), the
    other half are ReLU(-w x), with random directions w. So their mean grows with the length of x. The
    attention logit is a linear function of this mean (`AttentionMap.initialise`). A group norm before the
    ReLU scales all cells together. So a cell's logit depends on the length of its x relative to that of
    the other cells.
    """
    image_weight, difference_weight = cells.embed.weight.flatten(1).chunk(2, 1)  # (M, K) each
    image_weight *= OUTPUT_SCALE
    w = nn.init.orthogonal_(torch.empty(len(difference_weight) // 2, difference_weight.shape[1]))
    difference_weight.copy_(torch.stack([w, -w], 1).flatten(0, 1))  # w and -w in one group of the norm
    cells.initialise(STEEPNESS, LEAST)


def duda(sizes: SpeakerSizes, switches: SpeakerSwitches, *, dropout: float) -> Captioner:
    """Build DUDA. Its classifier of the change type is left out, because no loss uses it."""
    width = sizes.channels + 2 * switches.coordinates
    difference = DualAttention(width, sizes, switches, dropout)
    return DynamicCaptioner(sizes, width, switches, dropout, GridCells(switches.coordinates), difference)


SWITCHES = frozenset(("coordinates", "pooled", "barred", "first_weights"))
DUDA = Entry(
    duda,
    RELEASED,
    SWITCHES,
    SpeakerSizes,
    "duda",
    layer={
        "settings": {"dropout": 0.5},
        "sizes": {"maps": 128, "hidden": 512, "word_width": 300},
        "loss": LOSS,
        "train": PLAIN | {"learning_rate": 1e-3, "schedule": "constant"},
    },
)
