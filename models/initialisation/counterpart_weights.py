"""Initial weights with which a block on both images compares cells with their counterparts. Not published.

The counterpart is the cell of the same place in the other image. With weights that attend to all cells alike,
a transformer does not learn to compare two images from a small dataset; with these it does (docs/methods.md,
"IDC-PCL"). All of them are trained. N: cells of an image; D: width; h: heads; d = D/h.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention
from models.common.transformer_block import TransformerBlock

SHARPNESS = 24.0  # logit of the counterpart, if all other cells are near 0; features blur it
QUIET = 0.5  # gain of places and sides
SHOWN = (
    0.12  # gain of a cell's content, shorter than its place, so that layer norms keep how much cells differ
)
CALM = 0.1  # gain of the output of all other blocks, so that the content and the difference pass them
FAINT = 0.1  # share of the strongest direction in which places differ; weaker ones are not amplified
TELL = 7.0  # divided by sqrt(D): gain of the difference's size (a sum of |x|) along its direction
USUAL = 0.22  # by how much unchanged cells differ in each direction, in units of a layer norm
LOOK, SIDED = 17.0, 11.0  # logits of a token, sqrt(D) long, that is only that direction, or only a side


def grid_places(rows: int, columns: int, width: int) -> Tensor:
    """Sines and cosines of a cell's row, then of its column: (N, D). Raises ValueError unless 4 divides D."""
    row, column = line_places(rows, width), line_places(columns, width)
    return torch.cat([row.repeat_interleave(columns, 0), column.repeat(rows, 1)], 1)


def line_places(count: int, width: int) -> Tensor:
    """Sines, then cosines, of a row's or column's number, (count, D/2): frequencies evenly from 0 to pi.

    Raises ValueError unless 4 divides D.
    """
    if width % 4:
        raise ValueError(f"first_weights: places need a width that is a multiple of 4, not {width}")
    frequencies = math.pi * (torch.arange(width // 4) + 0.5) / (width // 4)
    angles = torch.arange(count)[:, None] * frequencies
    return torch.cat([angle_of(angles) for angle_of in (torch.sin, torch.cos)], 1)


def side_of(width: int) -> Tensor:
    """A random direction, (D), sqrt(D) long: added to one image's tokens, subtracted from the other's."""
    return F.normalize(torch.randn(width), dim=0) * math.sqrt(width)


def side_beside(places: Tensor) -> Tensor:
    """A side, (D), at right angles to all directions in which places differ."""
    side = side_of(places.shape[1])
    side -= within(places) @ side
    return math.sqrt(len(side)) * F.normalize(side, dim=0)


def within(places: Tensor) -> Tensor:
    """Return the projection on the directions in which places differ: (D, D)."""
    directions = F.normalize(whitening(places)[0], dim=1)  # (min(N, D), D), some of them 0
    return directions.T @ directions


@torch.no_grad()
def look_across(
    attention: MultiHeadAttention, places: Tensor, side: Tensor, sharpness: float = SHARPNESS
) -> Tensor:
    """Make each token attend to its counterpart, with q_i k_j^T / sqrt(d) of about `sharpness`.

    Tokens hold `places`, (N, D), by their cell, and `side`, (D), by their image (- side for the second one).
    The first d - 1 directions of each head see places, the last one sees the side. - W^O W^V projects on
    half of the directions. There the counterpart is subtracted, so that the residual holds the difference;
    the other half holds what the cell itself shows. The side is in the other half: twice its length would be
    left, which is longer than any change.

    Returns the half, (D, D/2): unit vectors at right angles to each other.
    """
    h, D = attention.heads, len(side)
    d, toward = D // h, F.normalize(side, dim=0)
    seen = seen_places(h, d - 1, places - torch.outer(places @ toward, toward), sharpness * math.sqrt(d))
    sides = toward / side.norm() * math.sqrt(sharpness * math.sqrt(d))
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
    """Make cells read `gain` times the content of the other image's cells, mostly of their counterpart.

    q_i k_j^T / sqrt(d) is about `sharpness` for the same place. Cells hold `places`, (N, D).
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
    """Return maps of a cell's place, (rows, D) for each head, randomly rotated: |W place|^2 is `square`."""
    directions, strong = (each[:rows] for each in whitening(places))  # the strongest first
    scale = (square / strong.sum()).sqrt()
    drawn = [nn.init.orthogonal_(torch.empty(rows, len(strong))) for _ in range(heads)]
    return [turned @ directions * scale for turned in drawn]


def without_biases(attention: MultiHeadAttention) -> None:
    """Set all biases to 0."""
    for each in attention.children():
        assert isinstance(each, nn.Linear)
        nn.init.zeros_(each.bias)


def whitening(places: Tensor) -> tuple[Tensor, Tensor]:
    """Return the directions in which places differ, (min(N, D), D), and a mask of the strong ones.

    The strongest direction is first. Along each strong direction the variance of places is scaled to 1; weak
    directions (FAINT) are 0.
    """
    _, deviations, directions = torch.linalg.svd(places - places.mean(0), full_matrices=False)
    strong = deviations > FAINT * deviations[0]
    scales = torch.where(strong, math.sqrt(len(places)) / deviations, 0.0)
    return directions * scales[:, None], strong.float()


@torch.no_grad()
def tell(half: Tensor, differs: Tensor, up: nn.Linear, down: nn.Linear) -> None:
    """Make the first D channels of a feed-forward add the size of the difference along `differs`.

    The size is the sum of |x| over `half`, (D, D/2). Keys are a linear map, which cannot compute it.
    f(x) + f(-x) is |x| for ReLU, and nearly for GELU. `differs`, (D): a unit vector at right angles
    to `half`.
    `up` is W_1, `down` is W_2.
    """
    D = len(half)
    up.weight[:D], up.bias[:D] = torch.cat([half.T, -half.T]), 0
    down.weight[:, :D] += TELL / math.sqrt(D) * differs[:, None]
    down.bias.sub_(TELL / math.sqrt(D) * USUAL * D / 2 * differs)


@torch.no_grad()
def look_at(attention: MultiHeadAttention, differs: Tensor, side: Tensor) -> None:
    """Make all queries attend to cells that differ: half of the heads in image 1, half in image 2.

    Only the first direction of each head is set. `differs`, (D): see `tell`. `side`, (D): the first image's.
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
    """Multiply the weights and biases of `maps` by CALM."""
    for each in maps:
        for parameter in each.parameters():
            parameter.mul_(CALM)


def calm_block(block: TransformerBlock) -> None:
    """Scale both residual branches of a block (attention output, last feed-forward layer) by CALM."""
    calm(block.attention.output, block.fed[-1])
