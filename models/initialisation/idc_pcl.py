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
    """Return position embeddings that use only the first n channels: (places, side, n).

    places: (N, D), a position embedding for each of the N cells
    side: (D,), the vector that is added to the tokens of the first image, and subtracted from those of
        the second image

    n is below D/2. The content of cells must be 0 in the first n channels; otherwise cells would attend
    to cells with similar content. Raises ValueError if the width D is too small.
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
    """Initialise `project`, the linear map, (D, C), that embeds the features of a cell.

    The first `room` output channels are set to 0. They are reserved for the cell's place and image
    (before or after), which are added later. The weights of the other channels are multiplied by the
    constant CELL_SCALE.
    """
    project.weight *= CELL_SCALE
    project.weight[:room], project.bias[:room] = 0, 0


@torch.no_grad()
def amplify_difference(half: Tensor, room: int, feed_forward: Any) -> Tensor:
    """Initialise a feed-forward layer to amplify the difference between a cell and its counterpart.

    The layer is W_2 ReLU(W_1 x). The input x of a cell holds two things: along the directions `half`,
    (D, D/2), the difference from the counterpart; along the other directions, the cell's own content.
    The output, which the block adds to x, is approximately the sum of three vectors:

    - the difference, multiplied by DIFFERENCE_GAIN. The factor is negative, so that words attend to the
      image in which a cell shows an object, and not to the image without the object.
    - the content, multiplied by CONTENT_GAIN, without the first `room` channels. These channels hold the
      cell's place and image.
    - a vector along one fixed direction, whose length tells the size of the difference

    Returns the fixed direction of the third vector, (D,). This direction is at right angles to `half` and
    to the first `room` channels.
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
