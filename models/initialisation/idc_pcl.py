"""Initial weights of IDC-PCL for few pairs: its switch `first_weights: counterpart`. Not published.

The first block on both images compares each cell with its counterpart (counterpart_weights.py). The
difference is made large enough for words to see it, and words start by attending to cells that differ. All
weights are trained. Results: docs/methods.md, "IDC-PCL". N: cells of an image; D: width; C: feature
channels.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.initialisation.counterpart_weights import QUIET, calm, grid_places, side_beside, tell

SHOWN = 0.5  # gain of W: sigma flattens large values, and then the layer norm hides how much cells differ
LOUD, OWN = -5.0, 2.0  # gains of the difference and of a cell's own content, which are added


def kept_apart(cells: tuple[int, int], width: int) -> tuple[Tensor, Tensor, int]:
    """Return places, (N, D), and a side, (D), in the first channels only, and the number of these channels.

    The content of cells is kept out of these channels: it is often alike, and would attract attention.
    There are enough channels for all rows and columns to differ well, but fewer than half.
    Raises ValueError if the width has no room for any.
    """
    room = min(max(width // 16, *cells), (width - 2) // 8) * 4
    if not room:
        raise ValueError(f"first_weights: counterpart needs a width of at least 10, not {width}")
    waves = grid_places(*cells, room)
    waves = waves - waves.mean(1, keepdim=True)  # a layer norm changes only their length
    waves, side = waves - waves.mean(0), side_beside(waves)
    places, side = (QUIET * math.sqrt(width / room) * x for x in (waves, side / 2))
    return F.pad(places, (0, width - room)), F.pad(side, (0, width - room)), room


@torch.no_grad()
def show_beside(project: nn.Linear, room: int) -> None:
    """Keep the content of a cell, W x with W (D, C), out of the first `room` channels."""
    project.weight *= SHOWN
    project.weight[:room], project.bias[:room] = 0, 0


@torch.no_grad()
def raise_within(half: Tensor, room: int, feed_forward: nn.Sequential) -> Tensor:
    """Make W_2 ReLU(W_1 x) add the difference (LOUD times), the cell's content (OWN times), and a size.

    The difference is the part of x in `half`, (D, D/2). LOUD is negative, so that words attend to the cell
    that shows the object, not to the cell where it is missing. A linear map can find a cell that lacks
    something, because no unchanged cell does. It cannot find a cell with something more, because other
    objects have the same. The size of the difference is added along one direction, (D), which is at right
    angles to all others and is returned (`tell`). This takes 3 D channels, because ReLU(x) - ReLU(-x) = x.
    The other channels are scaled by CALM.
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
