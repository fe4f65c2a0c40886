"""First weights of IDC-PCL for few pairs: its switch `first_weights: counterpart`. Not published.

The first block on both images compares each cell with the same one of the other image
(counterpart_weights.py); what it finds is made large enough for words to see it, and words begin by looking
at cells that differ. They are where training begins, and nothing else: all of them learn. What they brought:
docs/methods.md, "IDC-PCL". N cells of an image, D width, h heads, d = D/h.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.initialisation.counterpart_weights import QUIET, calm, grid_places, side_beside, tell

SHOWN = 0.5  # times W: sigma flattens what is large, and then the layer norm hides how much two cells differ
LOUD, OWN = -5.0, 2.0  # times the difference, and what a cell shows by itself, are added to it


def kept_apart(cells: tuple[int, int], width: int) -> tuple[Tensor, Tensor, int]:
    """Places, N x D, and a side, D, in the first channels alone; and how many channels those are.

    There is to be nothing of what cells show, which draws looks to the wrong place: much of it is alike. As
    many channels as there have to be waves for all lines and columns to differ well, and less than half.
    Raises ValueError where there are none.
    """
    room = min(max(width // 16, *cells), (width - 2) // 8) * 4
    if not room:
        raise ValueError(f"first_weights: counterpart needs a width of at least 10, not {width}")
    waves = grid_places(*cells, room)
    waves = waves - waves.mean(1, keepdim=True)  # a layer norm changes their length alone
    waves, side = waves - waves.mean(0), side_beside(waves)
    places, side = (QUIET * math.sqrt(width / room) * x for x in (waves, side / 2))
    return F.pad(places, (0, width - room)), F.pad(side, (0, width - room)), room


@torch.no_grad()
def show_beside(project: nn.Linear, room: int) -> None:
    """W, D x C: what a cell shows is in none of the first `room` channels."""
    project.weight *= SHOWN
    project.weight[:room], project.bias[:room] = 0, 0


@torch.no_grad()
def raise_within(half: Tensor, room: int, feed_forward: nn.Sequential) -> Tensor:
    """A W_2 ReLU(W_1 x) begins by adding LOUD times what x has in `half`, D x D/2, the difference; and more.

    It turns the difference round. A linear map finds a cell that lacks something of the other one, as no cell
    does that did not change; what a cell has more, other things have, too. So words find the cell that has
    the thing, not the one where it is missing. OWN times what the cell shows in other directions is added,
    and how much it differs along one direction, D, at right angles to all of these, which is returned
    (`tell`). 3 D of its channels do it, for ReLU(x) - ReLU(-x) = x; the others begin calm.
    """
    up, *_, down = feed_forward
    assert isinstance(up, nn.Linear)
    assert isinstance(down, nn.Linear)
    D, one = len(half), torch.eye(len(half))
    calm(down)
    own = one - half @ half.T
    own[:room], own[:, :room] = 0, 0
    up.weight[D : 3 * D], up.bias[D : 3 * D] = torch.cat([own, -own]), 0
    down.weight[:, : 3 * D] = torch.cat([LOUD * half, -LOUD * half, OWN * one, -OWN * one], 1)
    differs = torch.linalg.qr(torch.cat([half, one[:, :room], torch.randn(D, 1)], 1)).Q[:, -1]
    tell(half, differs, up, down)
    return differs
