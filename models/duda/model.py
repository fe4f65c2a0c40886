"""DUDA: dual dynamic attention (Park, Darrell, Rohrbach, "Robust Change Captioning", ICCV 2019).

Each image is looked at with a map of its own, made of it and of what a subtraction says of its cells. The
equations: docs/methods.md, "DUDA". B pairs, N cells an image, K = C channels, C + 2 with coordinates.
"""

import torch
from torch import Tensor, nn

from models.common.captioner import Captioner
from models.common.dynamic_speaker import (
    LOSS,
    RELEASED,
    Attended,
    CellMap,
    DynamicCaptioner,
    SpeakerSizes,
    SpeakerSwitches,
    attended,
)
from models.common.entry import Entry
from models.common.grid_embedding import GridCells
from models.initialisation.counterpart_weights import CALM

# of differing first weights: half a cell's weight where X_diff is 1.5 times as long as usual
STEEPNESS, LEAST = 12.5, 0.6


class DualAttention(nn.Module):
    """What each image shows where its map is high, and the difference of that; one map's weights for both."""

    def __init__(self, width: int, sizes: SpeakerSizes, switches: SpeakerSwitches, dropout: float):
        super().__init__()
        self.map = CellMap(2 * width, sizes.maps, dropout)
        self.pooled = switches.pooled
        if switches.first_weights == "differing":
            look_at_differences(self.map)

    def forward(self, before: Tensor, after: Tensor) -> Attended:
        """Cells of both images, (B, N, K) each."""
        difference = after - before
        maps = [self.map(image, difference) for image in (before, after)]  # (B, N) each
        l_bef, l_aft = (
            attended(own, image, self.pooled) for own, image in zip(maps, (before, after), strict=True)
        )
        memory = torch.stack([l_bef, l_aft - l_bef, l_aft], 1)  # (B, 3, K)
        return Attended(memory, before, after, torch.stack(maps, 1))


@torch.no_grad()
def look_at_differences(cells: CellMap) -> None:
    """A map's channels begin as ReLU(w X_diff) and ReLU(-w X_diff): their mean tells how long X_diff is.

    Their norm divides it by its root mean square over the cells. Not published: where training begins.
    """
    of_image, of_difference = cells.embed.weight.flatten(1).chunk(2, 1)  # (M, K) each
    of_image *= CALM
    drawn = nn.init.orthogonal_(torch.empty(len(of_difference) // 2, of_difference.shape[1]))
    of_difference.copy_(torch.stack([drawn, -drawn], 1).flatten(0, 1))  # a pair is of one group of the norm
    cells.begin(STEEPNESS, LEAST)


def duda(sizes: SpeakerSizes, switches: SpeakerSwitches, *, dropout: float) -> Captioner:
    """DUDA; without its classifier of the kind of change, which no loss reads."""
    width = sizes.channels + 2 * switches.coordinates
    difference = DualAttention(width, sizes, switches, dropout)
    return DynamicCaptioner(sizes, width, switches, dropout, GridCells(switches.coordinates), difference)


SWITCHES = frozenset(("coordinates", "pooled", "barred", "first_weights"))
DUDA = Entry(duda, RELEASED, SWITCHES, SpeakerSizes, "duda", loss=LOSS)
