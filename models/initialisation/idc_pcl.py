"""Initial weights of IDC-PCL for training on few pairs: the switch `first_weights: counterpart`.

The first block that sees both images compares each cell with its counterpart, the cell at the same place in
the other image (counterpart_weights.py). The difference is amplified, and words attend to cells that differ.
Results: docs/methods.md, "IDC-PCL". N: cells of an image; D: width; C: feature channels.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.initialisation import counterpart_weights as weights

# factor of W: the sigmoid flattens large values, and then the layer norm would hide how much cells differ
CELL_SCALE = 0.5
# factors of the difference and of a cell's own content in their sum
DIFFERENCE_GAIN, CONTENT_GAIN = -5.0, 2.0


def separate_places(cells: tuple[int, int], width: int) -> tuple[Tensor, Tensor, int]:
    """Return places, (N, D), and side, (D,), that use only the first n < D/2 channels, and n.

    Cells' content must be 0 there; otherwise cells would attend to similar content. Raises ValueError if D is
    too small.
    """
    room = min(max(width // 16, *cells), (width - 2) // 8) * 4
    if not room:
        raise ValueError(f"first_weights: counterpart needs a width of at least 10, not {width}")
    waves = weights.grid_places(*cells, room)
    waves = waves - waves.mean(1, keepdim=True)  # a layer norm changes only their length
    waves, side = waves - waves.mean(0), weights.orthogonal_side(waves)
    places, side = (weights.PLACE_SCALE * math.sqrt(width / room) * x for x in (waves, side / 2))
    return F.pad(places, (0, width - room)), F.pad(side, (0, width - room)), room


@torch.no_grad()
def clear_place_channels(project: nn.Linear, room: int) -> None:
    """Reserve the first `room` output channels of the cells' map, (D, C), for places; scale the others."""
    project.weight *= CELL_SCALE
    project.weight[:room], project.bias[:room] = 0, 0


@torch.no_grad()
def amplify_difference(half: Tensor, room: int, feed_forward: Any) -> Tensor:
    """Make a feed-forward layer amplify the difference to the counterpart; return the size's direction, (D,).

    The input has the difference along `half`, (D, D/2), and the cell's own content along the other
    directions. The output adds DIFFERENCE_GAIN times the difference, CONTENT_GAIN times the content without
    the first `room` channels, and the size of the difference along a direction at right angles to `half` and
    these channels.

    DIFFERENCE_GAIN is negative, so that words attend to the image in which a cell shows an object.
    """
    up, *_, down = feed_forward
    D, identity = len(half), torch.eye(len(half))
    weights.scale_down(down)
    content = identity - half @ half.T  # projects onto a cell's own content
    content[:room], content[:, :room] = 0, 0
    up.weight[D : 3 * D], up.bias[D : 3 * D] = torch.cat([content, -content]), 0
    down.weight[:, : 3 * D] = torch.cat(
        [DIFFERENCE_GAIN * half, -DIFFERENCE_GAIN * half, CONTENT_GAIN * identity, -CONTENT_GAIN * identity],
        1,
    )
    size_direction = torch.linalg.qr(torch.cat([half, identity[:, :room], torch.randn(D, 1)], 1)).Q[:, -1]
    weights.add_size(half, size_direction, up, down)
    return size_direction
