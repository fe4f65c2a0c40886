"""First weights by which a block on both images compares each cell with the same cell of the other image.

Not published. From weights that look everywhere alike, a transformer does not learn to compare two images
within what a small dataset teaches; from these it begins to (docs/methods.md, "IDC-PCL"). They are where
training begins, and nothing else: all of them learn. N cells of an image, D width, h heads, d = D/h.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention

SHARPNESS = 24.0  # the logit of the counterpart, where all other cells are near 0; features blur it
QUIET = 0.5  # places and sides, beside what a cell shows: a model's SHOWN says how loud that is
CALM = 0.1  # what all other blocks add: what a cell shows, and the difference, pass by them
FAINT = 0.1  # of the strongest direction in which places differ: what is in weaker ones would be amplified
TELL = 7.0  # over sqrt(D): what is added along the direction that tells a difference, for a sum of |x| of 1
USUAL = 0.22  # by how much cells of which nothing changed differ in each direction, in units of a layer norm
LOOK, SIDED = 17.0, 11.0  # logits of a token, sqrt(D) long, that were nothing but that direction, or a side


def grid_places(rows: int, columns: int, width: int) -> Tensor:
    """Sines and cosines of a cell's row, then of its column, N x D; nearby cells are told apart, too.

    Raises ValueError where 4 does not divide D.
    """
    row, column = line_places(rows, width), line_places(columns, width)
    return torch.cat([row.repeat_interleave(columns, 0), column.repeat(rows, 1)], 1)


def line_places(count: int, width: int) -> Tensor:
    """Sines, then cosines, of a row's or a column's number, count x D/2: frequencies evenly between 0 and pi.

    Raises ValueError where 4 does not divide D.
    """
    if width % 4:
        raise ValueError(f"first_weights: places need a width that is a multiple of 4, not {width}")
    frequencies = math.pi * (torch.arange(width // 4) + 0.5) / (width // 4)
    angles = torch.arange(count)[:, None] * frequencies
    return torch.cat([angle_of(angles) for angle_of in (torch.sin, torch.cos)], 1)


def side_of(width: int) -> Tensor:
    """What tokens of one image get added, and the other's taken off: a random direction, sqrt(D) long."""
    return F.normalize(torch.randn(width), dim=0) * math.sqrt(width)


def side_beside(places: Tensor) -> Tensor:
    """A side, D, at right angles to all directions in which places differ."""
    side = side_of(places.shape[1])
    side -= within(places) @ side
    return math.sqrt(len(side)) * F.normalize(side, dim=0)


def within(places: Tensor) -> Tensor:
    """The projection on the directions in which places differ, D x D."""
    directions = F.normalize(whitening(places)[0], dim=1)  # min(N, D) x D, some of them 0
    return directions.T @ directions


@torch.no_grad()
def look_across(
    attention: MultiHeadAttention, places: Tensor, side: Tensor, sharpness: float = SHARPNESS
) -> Tensor:
    """Overwrite its weights: q_i k_j^T / sqrt(d) is about `sharpness` for the same place of the other image.

    `places`, N x D, and `side`, D: what tokens have in them by their cell, and (the second image's: - side)
    by their image. In the first d - 1 directions of each head are places, in the last one is the side.
    - W^O W^V projects on half of the directions, the side's not among them: there what is seen is subtracted,
    so that the residual has the cells' difference, and in the other half what the cell itself shows. Of the
    side twice its length would be left, which is longer than any change.

    Returns the half, D x D/2: at right angles to each other, 1 long.
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
    half, _ = torch.linalg.qr(drawn - torch.outer(toward, toward @ drawn))  # D x D/2
    attention.output.weight.copy_(-half @ half.T @ nn.init.orthogonal_(attention.value.weight).T)
    without_biases(attention)
    return half


@torch.no_grad()
def look_over(attention: MultiHeadAttention, places: Tensor, sharpness: float, gain: float) -> None:
    """Overwrite its weights: a cell reads the other image's cells, its counterpart most, `gain` times.

    q_i k_j^T / sqrt(d) is about `sharpness` for the same place. `places`, N x D: what cells have in them.
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
    """For each head rows x D that see where a cell is, in turned directions: |W place|^2 is `square`."""
    directions, told = (each[:rows] for each in whitening(places))  # the strongest first
    scale = (square / told.sum()).sqrt()
    drawn = [nn.init.orthogonal_(torch.empty(rows, len(told))) for _ in range(heads)]
    return [turned @ directions * scale for turned in drawn]


def without_biases(attention: MultiHeadAttention) -> None:
    """All of its biases become 0."""
    for each in attention.children():
        assert isinstance(each, nn.Linear)
        nn.init.zeros_(each.bias)


def whitening(places: Tensor) -> tuple[Tensor, Tensor]:
    """Directions in which places differ, min(N, D) x D, made so long that their variance is 1, or else 0.

    The strongest first. And of each 1, or 0.
    """
    _, deviations, directions = torch.linalg.svd(places - places.mean(0), full_matrices=False)
    strong = deviations > FAINT * deviations[0]
    scales = torch.where(strong, math.sqrt(len(places)) / deviations, 0.0)
    return directions * scales[:, None], strong.float()


@torch.no_grad()
def tell(half: Tensor, differs: Tensor, up: nn.Linear, down: nn.Linear) -> None:
    """A feed-forward's first D channels add how much x differs, the sum of |x| over `half`, along `differs`.

    No linear map of x tells that, and keys are one. `half`, D x D/2; `differs`, D, at right angles to it and
    1 long. Of the nonlinearities f(x) + f(-x) is |x| (ReLU), or nearly (GELU): up W_1, down W_2.
    """
    D = len(half)
    up.weight[:D], up.bias[:D] = torch.cat([half.T, -half.T]), 0
    down.weight[:, :D] += TELL / math.sqrt(D) * differs[:, None]
    down.bias.sub_(TELL / math.sqrt(D) * USUAL * D / 2 * differs)


@torch.no_grad()
def look_at(attention: MultiHeadAttention, differs: Tensor, side: Tensor) -> None:
    """Whatever asks, each head's first direction finds what differs, of one image each half of the heads.

    `differs`, D, as of `tell`; `side`, D: the direction that the first image's tokens have in them.
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
    """What blocks add by their last maps becomes CALM times as large."""
    for each in maps:
        for parameter in each.parameters():
            parameter.mul_(CALM)
