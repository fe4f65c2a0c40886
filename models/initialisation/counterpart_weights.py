"""Initial weights with which a transformer block compares each cell with its counterpart.

A cell's counterpart is the cell in the same row and column of the other image. This initialisation
is ours; no paper describes it. With it, a small dataset is enough to learn to compare images
(docs/methods.md, "IDC-PCL").
place: position embedding of a cell
side: vector that is added to the tokens of the first image and subtracted from those of the second
N: cells of an image; D: width; h: heads; d = D/h.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention, TransformerBlock

# attention logit of the counterpart, where other cells are near 0; the content of cells adds noise to it
SHARPNESS = 24.0
PLACE_SCALE = 0.5  # factor of places and sides
# factor of a cell's content; it is then shorter than the place, so that layer norms keep how much cells
# differ
CONTENT_SCALE = 0.12
# factor of the output of all other blocks, so that they change content and difference little
OUTPUT_SCALE = 0.1
WEAK_SHARE = 0.1  # directions in which places differ less than this share of the strongest are not amplified
# SIZE_GAIN / sqrt(D) is the factor of the difference's size (a sum of |x|) along its direction
SIZE_GAIN = 7.0
UNCHANGED_SIZE = 0.22  # mean difference of unchanged cells in each direction, after a layer norm
# attention logits of a token, sqrt(D) long, that has only the direction of the difference's size | only a
# side
SIZE_LOGIT, SIDE_LOGIT = 17.0, 11.0


def grid_places(rows: int, columns: int, width: int) -> Tensor:
    """Return position embeddings of a grid's cells, (rows * columns, width): half by row, half by column."""
    row, column = line_places(rows, width), line_places(columns, width)
    return torch.cat([row.repeat_interleave(columns, 0), column.repeat(rows, 1)], 1)


def line_places(count: int, width: int) -> Tensor:
    """Return sines, then cosines, of row numbers: (count, width/2); ValueError unless 4 divides the width."""
    if width % 4:
        raise ValueError(f"first_weights: places need a width that is a multiple of 4, not {width}")
    frequencies = math.pi * (torch.arange(width // 4) + 0.5) / (width // 4)
    angles = torch.arange(count)[:, None] * frequencies
    return torch.cat([angle_of(angles) for angle_of in (torch.sin, torch.cos)], 1)


def random_side(width: int) -> Tensor:
    """Return a random vector, (D,), of length sqrt(D), which marks the image that a token belongs to."""
    return F.normalize(torch.randn(width), dim=0) * math.sqrt(width)


def orthogonal_side(places: Tensor) -> Tensor:
    """Return a `random_side` at right angles to all differences between rows of `places`, (N, D)."""
    side = random_side(places.shape[1])
    side -= projection_onto(places) @ side
    return math.sqrt(len(side)) * F.normalize(side, dim=0)


def projection_onto(places: Tensor) -> Tensor:
    """Return the projection, (D, D), onto the span of the differences between rows of `places`, (N, D)."""
    directions = F.normalize(whitening(places)[0], dim=1)  # (min(N, D), D), some of them 0
    return directions.T @ directions


@torch.no_grad()
def subtract_counterpart(attention: MultiHeadAttention, places: Tensor, side: Tensor) -> Tensor:
    """Make a self-attention subtract from each token the same cell's token in the other image.

    A token contains its place, a row of `places`, (N, D), and plus or minus `side`, (D,), for its image. In
    each head, d - 1 channels of queries and keys come from the place and the last from the side, so that the
    counterpart's logit q_i k_j^T / sqrt(d) is about SHARPNESS.

    -W^O W^V projects onto D/2 directions, which then hold the difference; the others keep content and side.
    Returns these directions as orthonormal columns, (D, D/2).
    """
    h, D = attention.heads, len(side)
    d, unit_side = D // h, F.normalize(side, dim=0)
    without_side = places - torch.outer(places @ unit_side, unit_side)
    place_maps = place_maps_of(h, d - 1, without_side, SHARPNESS * math.sqrt(d))
    sides = unit_side / side.norm() * math.sqrt(SHARPNESS * math.sqrt(d))
    attention.query.weight.copy_(torch.cat([torch.cat([W, sides[None]]) for W in place_maps]))
    attention.key.weight.copy_(torch.cat([torch.cat([W, -sides[None]]) for W in place_maps]))
    drawn = torch.randn(D, D // 2)
    half, _ = torch.linalg.qr(drawn - torch.outer(unit_side, unit_side @ drawn))  # (D, D/2)
    attention.output.weight.copy_(-half @ half.T @ nn.init.orthogonal_(attention.value.weight).T)
    without_biases(attention)
    return half


@torch.no_grad()
def copy_counterpart(attention: MultiHeadAttention, places: Tensor, sharpness: float, gain: float) -> None:
    """Make an attention between two images copy `gain` times the content of each cell's counterpart.

    Its logit is about `sharpness`. `places`, (N, D), are position embeddings; a cell's input vector contains
    one of them.
    """
    D = places.shape[1]
    d = D // attention.heads
    place_map = torch.cat(place_maps_of(attention.heads, d, places, sharpness * math.sqrt(d)))
    attention.query.weight.copy_(place_map)
    attention.key.weight.copy_(place_map)
    attention.output.weight.copy_(gain * nn.init.orthogonal_(attention.value.weight).T)
    without_biases(attention)


def place_maps_of(heads: int, rows: int, places: Tensor, square: float) -> list[Tensor]:
    """Return a random W, (rows, D), for each head, with |W p|^2 of about `square` for places p, (N, D)."""
    directions, strong = (x[:rows] for x in whitening(places))  # the strongest first
    scale = (square / strong.sum()).sqrt()
    rotations = [nn.init.orthogonal_(torch.empty(rows, len(strong))) for _ in range(heads)]
    return [rotation @ directions * scale for rotation in rotations]


def without_biases(attention: MultiHeadAttention) -> None:
    """Set all biases of an attention to 0."""
    for map_ in (attention.query, attention.key, attention.value, attention.output):
        nn.init.zeros_(map_.bias)


def whitening(places: Tensor) -> tuple[Tensor, Tensor]:
    """Return the principal directions of places, (N, D), with variance 1 or, if weak, 0, and their mask."""
    _, deviations, directions = torch.linalg.svd(places - places.mean(0), full_matrices=False)
    strong = deviations > WEAK_SHARE * deviations[0]
    scales = torch.where(strong, math.sqrt(len(places)) / deviations, 0.0)
    return directions * scales[:, None], strong.float()


@torch.no_grad()
def add_size(half: Tensor, size_direction: Tensor, up: nn.Linear, down: nn.Linear) -> None:
    """Make a feed-forward layer add the size of the difference to each token along `size_direction`, (D,).

    The size is the sum of |x| = ReLU(x) + ReLU(-x) along `half`, (D, D/2), less its mean at unchanged cells.
    """
    D = len(half)
    up.weight[:D], up.bias[:D] = torch.cat([half.T, -half.T]), 0
    down.weight[:, :D] += SIZE_GAIN / math.sqrt(D) * size_direction[:, None]
    down.bias.sub_(SIZE_GAIN / math.sqrt(D) * UNCHANGED_SIZE * D / 2 * size_direction)


@torch.no_grad()
def attend_to_changes(attention: MultiHeadAttention, size_direction: Tensor, side: Tensor) -> None:
    """Make half of the heads attend to the changed cells of image 1, and the others to those of image 2.

    Only the first channel of each head is set. `size_direction`, (D,), shows how much a cell differs; `side`,
    (D,), marks its image.
    """
    D, h = len(size_direction), attention.heads
    unit_side = F.normalize(side, dim=0)
    for head in range(h):
        first, image = head * (D // h), 1 if head < h / 2 else -1
        attention.query.weight[first], attention.query.bias[first] = 0, math.sqrt(D // h)
        attention.key.weight[first] = (
            SIZE_LOGIT * size_direction + image * SIDE_LOGIT * unit_side
        ) / math.sqrt(D)
        attention.key.bias[first] = 0


@torch.no_grad()
def scale_down(*maps: nn.Module) -> None:
    """Multiply the weights and biases of the given linear maps by the small factor OUTPUT_SCALE, in place."""
    for map_ in maps:
        for parameter in map_.parameters():
            parameter.mul_(OUTPUT_SCALE)


def scale_block(block: TransformerBlock) -> None:
    scale_down(block.attention.output, block.feed_forward_layer[-1])
