"""DUDA: dual dynamic attention (Park, Darrell, Rohrbach, "Robust Change Captioning", ICCV 2019).

Each image is looked at with a map of its own, made of it and of what a subtraction says of its cells. The
equations: docs/methods.md, "DUDA". B pairs, N cells an image, K = C channels, C + 2 with coordinates.
"""

import torch
from torch import Tensor, nn

from models.captioner import Captioner
from models.dynamic_speaker import (
    LOSS,
    RELEASED,
    Attended,
    CellMap,
    Cells,
    DynamicCaptioner,
    SpeakerSizes,
    SpeakerSwitches,
    attended,
)
from models.entry import Entry


class DualAttention(nn.Module):
    """What each image shows where its map is high, and the difference of that; one map's weights for both."""

    def __init__(self, width: int, sizes: SpeakerSizes, switches: SpeakerSwitches, dropout: float):
        super().__init__()
        self.map = CellMap(2 * width, sizes.maps, dropout)
        self.pooled = switches.pooled

    def forward(self, before: Tensor, after: Tensor) -> Attended:
        """Cells of both images, B x N x K each."""
        difference = after - before
        maps = [self.map(image, difference) for image in (before, after)]  # B x N each
        l_bef, l_aft = (
            attended(own, image, self.pooled) for own, image in zip(maps, (before, after), strict=True)
        )
        memory = torch.stack([l_bef, l_aft - l_bef, l_aft], 1)  # B x 3 x K
        return Attended(memory, before, after, torch.stack(maps, 1))


def duda(sizes: SpeakerSizes, switches: SpeakerSwitches, *, dropout: float) -> Captioner:
    """DUDA; without its classifier of the kind of change, which no loss reads."""
    width = sizes.channels + 2 * switches.coordinates
    difference = DualAttention(width, sizes, switches, dropout)
    return DynamicCaptioner(sizes, width, switches, dropout, Cells(switches), difference)


SWITCHES = frozenset(("coordinates", "pooled", "barred"))
DUDA = Entry(duda, RELEASED, SWITCHES, SpeakerSizes, "duda", loss=LOSS)
