"""Initial weights with which a transformer block compares each cell with its counterpart (not published).

A cell's counterpart is the cell at the same place in the other image. With these weights, a model learns to
compare images from a small dataset (docs/methods.md, "IDC-PCL"). A place is the position embedding of a cell.
A side is a direction that is added to the tokens of the first image and subtracted from those of the second.
N: cells of an image; D: width; h: heads; d = D/h.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention
from models.common.transformer_block import TransformerBlock

# attention logit of the counterpart, where other cells are near 0; the content of cells adds noise to it
SHARPNESS = 24.0
QUIET = 0.5  # factor of places and sides
# factor of a cell's content; it is then shorter than the place, so that layer norms keep how much cells
# differ
SHOWN = 0.12
CALM = 0.1  # factor of the output of all other blocks, so that they change content and difference little
FAINT = 0.1  # directions in which places differ less than this share of the strongest are not amplified
TELL = 7.0  # TELL / sqrt(D) is the factor of the difference's size (a sum of |x|) along its direction
USUAL = 0.22  # mean difference of unchanged cells in each direction, after a layer norm
# attention logits of a token, sqrt(D) long, that has only the direction of the difference's size | only a
# side
LOOK, SIDED = 17.0, 11.0


def grid_places(rows: int, columns: int, width: int) -> Tensor:
    """Return the place of each cell, (N, D): sines and cosines of the row, then those of the column."""
    row, column = line_places(rows, width), line_places(columns, width)
    return torch.cat([row.repeat_interleave(columns, 0), column.repeat(rows, 1)], 1)


def line_places(count: int, width: int) -> Tensor:
    """Return an embedding of the row (or column) numbers 0 to `count` - 1, (count, D/2): sines, then cosines.

    The frequencies are evenly spaced from 0 to pi. Raises ValueError unless 4 divides D.
    """
    if width % 4:
        raise ValueError(f"first_weights: places need a width that is a multiple of 4, not {width}")
    frequencies = math.pi * (torch.arange(width // 4) + 0.5) / (width // 4)
    angles = torch.arange(count)[:, None] * frequencies
    return torch.cat([angle_of(angles) for angle_of in (torch.sin, torch.cos)], 1)


def side_of(width: int) -> Tensor:
    """Return a random side, (D,), of the length sqrt(D)."""
    return F.normalize(torch.randn(width), dim=0) * math.sqrt(width)


def side_beside(places: Tensor) -> Tensor:
    """Return a random side, (D,), of the length sqrt(D), at right angles to all differences of places."""
    side = side_of(places.shape[1])
    side -= within(places) @ side
    return math.sqrt(len(side)) * F.normalize(side, dim=0)


def within(places: Tensor) -> Tensor:
    """Return the matrix, (D, D), that projects onto the span of the differences between `places`.

    `places`, (N, D), are the vectors of the grid's positions.
    """
    directions = F.normalize(whitening(places)[0], dim=1)  # (min(N, D), D), some of them 0
    return directions.T @ directions


@torch.no_grad()
def look_across(attention: MultiHeadAttention, places: Tensor, side: Tensor) -> Tensor:
    """Initialise a self-attention so that each token attends to its counterpart and subtracts it.

    A token contains the place of its cell, from `places` (N, D), and the side of its image, `side` (D,) or
    its negative. The first d - 1 channels of each head's queries and keys are computed from the place, and
    the last channel from the side. The logit q_i k_j^T / sqrt(d) of the counterpart is about SHARPNESS.
    -W^O W^V is a projection onto half of the directions. In this half, the token plus the output of the
    attention is the token minus its counterpart. The other half keeps the content of the cell, and the
    side.

    Returns the half that holds the difference, (D, D/2): unit vectors at right angles to each other.
    """
    h, D = attention.heads, len(side)
    d, toward = D // h, F.normalize(side, dim=0)
    seen = seen_places(h, d - 1, places - torch.outer(places @ toward, toward), SHARPNESS * math.sqrt(d))
    sides = toward / side.norm() * math.sqrt(SHARPNESS * math.sqrt(d))
    for mixed, q, k in zip(seen, attention.query.weight.split(d), attention.key.weight.split(d), strict=True):
        q.copy_(torch.cat([mixed, sides[None]]))
        k.copy_(torch.cat([mixed, -sides[None]]))
    assert isinstance(attention.output, nn.Linear)
    drawn = torch.randn(D, D // 2)
    half, _ = torch.linalg.qr(drawn - torch.outer(toward, toward @ drawn))  # (D, D/2)
    attention.output.weight.copy_(-half @ half.T @ nn.init.orthogonal_(attention.value.weight).T)
    without_biases(attention)
    return half


@torch.no_grad()
def look_over(attention: MultiHeadAttention, places: Tensor, sharpness: float, gain: float) -> None:
    """Initialise an attention between two images so that each cell attends mostly to its counterpart.

    The output is `gain` times the content of the attended cells. The logit of the counterpart is about
    `sharpness`. A cell's input vector contains its place, from `places`, (N, D).
    """
    D = places.shape[1]
    d = D // attention.heads
    seen = seen_places(attention.heads, d, places, sharpness * math.sqrt(d))
    for each in (attention.query, attention.key):
        each.weight.copy_(torch.cat(seen))
    assert isinstance(attention.output, nn.Linear)
    attention.output.weight.copy_(gain * nn.init.orthogonal_(attention.value.weight).T)
    without_biases(attention)


def seen_places(heads: int, rows: int, places: Tensor, square: float) -> list[Tensor]:
    """Return, for each head, a random matrix W, (rows, D), that maps places to queries and keys.

    |W p|^2 is about `square` for each place p.
    """
    directions, strong = (each[:rows] for each in whitening(places))  # the strongest first
    scale = (square / strong.sum()).sqrt()
    drawn = [nn.init.orthogonal_(torch.empty(rows, len(strong))) for _ in range(heads)]
    return [turned @ directions * scale for turned in drawn]


def without_biases(attention: MultiHeadAttention) -> None:
    """Set all biases of an attention to 0."""
    for each in attention.children():
        assert isinstance(each, nn.Linear)
        nn.init.zeros_(each.bias)


def whitening(places: Tensor) -> tuple[Tensor, Tensor]:
    """Return the directions in which places differ, (min(N, D), D), and a mask of the strong directions.

    The first direction is the strongest. A direction is strong if places differ along it by more than FAINT
    times as much as along the first. A strong direction is scaled so that the variance of places along it
    is 1. A weak direction is set to 0. The mask is 1 for a strong direction, and 0 for a weak one.
    """
    _, deviations, directions = torch.linalg.svd(places - places.mean(0), full_matrices=False)
    strong = deviations > FAINT * deviations[0]
    scales = torch.where(strong, math.sqrt(len(places)) / deviations, 0.0)
    return directions * scales[:, None], strong.float()


@torch.no_grad()
def tell(half: Tensor, differs: Tensor, up: nn.Linear, down: nn.Linear) -> None:
    """Initialise a feed-forward layer so that it adds the size of the difference to a token, along `differs`.

    `half`, (D, D/2), are the directions that hold the difference. The size is the sum of |x|, where the
    numbers x are the token's components along these directions. The layer computes |x| as ReLU(x) +
    ReLU(-x), or approximately with GELU. `up` and `down` are the layer's linear maps; their first D hidden
    channels are used. `differs`, (D,), is a unit vector at right angles to `half`.
    """
    D = len(half)
    up.weight[:D], up.bias[:D] = torch.cat([half.T, -half.T]), 0
    down.weight[:, :D] += TELL / math.sqrt(D) * differs[:, None]
    down.bias.sub_(TELL / math.sqrt(D) * USUAL * D / 2 * differs)


@torch.no_grad()
def look_at(attention: MultiHeadAttention, differs: Tensor, side: Tensor) -> None:
    """Initialise an attention so that all queries attend to cells that differ from their counterparts.

    Half of the heads attend to image 1, the others to image 2. Only the first channel of each head is set.
    `differs`, (D,), is the direction of the difference's size, as for `tell`.
    """
    D, h = len(differs), attention.heads
    toward = F.normalize(side, dim=0)
    for head in range(h):
        first, image = head * (D // h), 1 if head < h / 2 else -1
        attention.query.weight[first], attention.query.bias[first] = 0, math.sqrt(D // h)
        attention.key.weight[first] = (LOOK * differs + image * SIDED * toward) / math.sqrt(D)
        attention.key.bias[first] = 0


@torch.no_grad()
def calm(*maps: nn.Module) -> None:
    """Multiply the weights and biases of the given linear maps by the small factor CALM, in place."""
    for each in maps:
        for parameter in each.parameters():
            parameter.mul_(CALM)


def calm_block(block: TransformerBlock) -> None:
    """Make a transformer block change its input little: multiply its output maps by the small factor CALM."""
    calm(block.attention.output, block.fed[-1])
