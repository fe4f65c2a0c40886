"""Initial weights of IDC-PCL for training on few pairs: the switch `first_weights: counterpart`.

The first block that sees both images compares each cell with its counterpart, the cell at the same place in
the other image (counterpart_weights.py). The difference is amplified, and words attend to cells that differ.
Results: docs/methods.md, "IDC-PCL". N: cells of an image; D: width; C: feature channels.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.initialisation.counterpart_weights import QUIET, calm, grid_places, side_beside, tell

# factor of W: the sigmoid flattens large values, and then the layer norm would hide how much cells differ
SHOWN = 0.5
LOUD, OWN = -5.0, 2.0  # factors of the difference and of a cell's own content in their sum


def kept_apart(cells: tuple[int, int], width: int) -> tuple[Tensor, Tensor, int]:
    """Return places of cells, (N, D), a side, (D,), and the number n < D/2 of channels that both use.

    Places and side (see counterpart_weights.py) are 0 except in the first n channels. The content of cells
    must stay out of these channels; otherwise cells would attend to cells with similar content. Raises
    ValueError if the width D is too small.
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
    """Initialise the linear map W, (D, C), that embeds a cell's features.

    The first `room` output channels become 0, because the cell's place and side are added to these channels
    (see `kept_apart`). The weights of the other channels are multiplied by the constant SHOWN.
    """
    project.weight *= SHOWN
    project.weight[:room], project.bias[:room] = 0, 0


@torch.no_grad()
def raise_within(half: Tensor, room: int, feed_forward: nn.Sequential) -> Tensor:
    """Initialise the feed-forward layer W_2 ReLU(W_1 x) of the block that compares; return a direction, (D,).

    The difference is the part of x along the directions `half`, (D, D/2). The layer adds three vectors to
    x: LOUD times the difference, OWN times the cell's content, and the size of the difference (see `tell`).
    The factor LOUD is negative. So words attend to the cell that shows the object, and not to the cell
    where the object is missing. The returned direction is that of the size. It is at right angles to `half`
    and to the first `room` channels.
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
