"""Initial weights with which CLIP4IDC compares two images: the switch `first_weights: counterpart`.

With these weights, a model can be trained on a small dataset without pretraining (docs/methods.md,
"CLIP4IDC"). A block compares each token with its counterpart: the token at the same place in the
other image. CLIP's image encoder must learn slowly (`coef_lr`); otherwise training changes its
weights before the decoder can use them. D: width of the encoder; E: width of the space of pairs and
captions; N: cells of an image; t = N + 1: tokens of an image, class token first.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.clip4idc.captioner import ClipDecoder, MemoryEncoder
from models.clip4idc.encoders import ImageEncoder
from models.clip4idc.pair_encoders import ClipJointEncoder, PairEncoder
from models.common.attention import TransformerBlock
from models.initialisation import counterpart_weights as weights

TOKEN = 6.0  # length of a class token without its position
# factor of SIZE_LOGIT and SIDE_LOGIT (counterpart_weights.py) in the logits of a class token that is sqrt(D)
# long and has only its own direction
QUERY_GAIN = 1.4
VALUE_GAIN = 2.0  # factor of the values that class tokens gather
GAIN = 6.0  # factor of the difference in the decoder, because the difference is smaller than the images
# orthogonal directions in the space of E channels: of the difference, (E, E/2); of the difference's size,
# (E,); of the image, (E,), positive for the first image's tokens and negative for the second image's
Directions = tuple[Tensor, Tensor, Tensor]


@torch.no_grad()
def compare(
    encoding: ImageEncoder, inter: PairEncoder, layer: TransformerBlock | None = None
) -> Directions | None:
    """Initialise the first block that sees both images to compare each token with its counterpart.

    A token's counterpart is the token at the same place in the other image. If no block of the pair encoder
    sees both images, the block is `layer`, the first of the captioner's encoder; the result is None if that
    is None, too.

    If a block of the pair encoder compares, its output has E channels: E/2 for the difference of a token from
    its counterpart, one for the size of this difference, one for the token's image, the rest for its content.

    Returns the directions, in the compared output, of the difference, (E, E/2), of its size, (E,), and of the
    image, (E,) (positive: first image). Raises ValueError if E is above the width D or below 4, or if E is
    odd and `layer` is initialised.
    """
    places = all_places(encoding)
    side = weights.PLACE_SCALE / 2 * weights.orthogonal_side(places)
    unit_side = F.normalize(side, dim=0)
    # the content of patches avoids the directions that the comparison uses
    patch_weight = last_map(encoding).mul_(weights.CONTENT_SCALE)
    patch_weight -= (weights.projection_onto(places) + torch.outer(unit_side, unit_side)) @ patch_weight
    inter.images[0], inter.images[1] = side, -side
    if isinstance(inter, ClipJointEncoder):
        inter.positions.zero_()
    W, blocks = inter.project.map.weight, [*inter.blocks.values()]  # W: (E, D)
    E, D = W.shape
    for block in [*encoding.blocks.values(), *blocks[1:]]:
        weights.scale_block(block)
    if not 4 <= E <= D:
        raise ValueError(f"first_weights: counterpart needs a joint from 4 to width's {D}, not {E}")
    if not blocks:
        return compare_in_captioner(W, places, side, layer)
    half = weights.subtract_counterpart(blocks[0].attention, places, side)  # (D, D/2)
    size_direction = add_difference_size(half, places, side, blocks[0])
    size_and_side = torch.stack([size_direction, F.normalize(side, dim=0)], 1)
    rest = torch.linalg.qr(torch.cat([half, size_and_side], 1), mode="complete").Q[:, D // 2 + 2 :]
    W.copy_(torch.cat([half[:, : E // 2], size_and_side, rest], 1).T[:E])
    identity, middle = torch.eye(E), E // 2
    return identity[:, :middle], identity[middle], identity[middle + 1]


def compare_in_captioner(
    W: Tensor, places: Tensor, side: Tensor, layer: TransformerBlock | None
) -> Directions | None:
    """Initialise `W` and `layer` for `compare`, where no block before the captioner sees both images.

    W: (E, D), last linear map before the captioner; its output gets the token's image in channel 0, then its
        place
    places: position embeddings, (t, D); side: (D,), added to tokens of the first image, subtracted from the
        second's
    Returns the directions of `compare`; None if there is no layer. Raises ValueError if E is odd and there is
    a layer.
    """
    directions = torch.cat([side[None], weights.whitening(places)[0]])  # those of places: the strongest first
    W.copy_(torch.linalg.qr(directions.T, mode="complete").Q[:, : len(W)].T)
    if layer is None:
        return None
    if len(W) % 2:
        raise ValueError(f"first_weights: counterpart needs an even joint here, not {len(W)}")
    places, side = places @ W.T, W @ side
    half = weights.subtract_counterpart(layer.attention, places, side)  # (E, E/2)
    size_direction = add_difference_size(half, places, side, layer)
    return half, size_direction, F.normalize(side, dim=0)


def all_places(encoding: ImageEncoder) -> Tensor:
    """Set the image encoder's position embeddings by row and column, and return them, (1 + cells, D).

    The class token, row 0, gets a position that no cell has, so that attention by position matches both
    images' class tokens.
    """
    rows, columns = encoding.patches.cells
    waves = weights.grid_places(rows + 1, columns + 1, encoding.patches.positions.shape[1])
    waves = waves.unflatten(0, (rows + 1, columns + 1))
    places = torch.cat([waves[-1:, -1], waves[:-1, :-1].flatten(0, 1)])
    places = weights.PLACE_SCALE * (places - places.mean(0))
    encoding.patches.positions.copy_(places)
    return places


def last_map(encoding: ImageEncoder) -> Tensor:
    """Return the patches' convolution as a matrix, (D, inputs): a view, so writing to it sets the weights."""
    return next(encoding.patches.project.parameters()).flatten(1)


def add_difference_size(half: Tensor, places: Tensor, side: Tensor, block: TransformerBlock) -> Tensor:
    """Make a feed-forward layer add the size of each token's difference along a new direction, (D,).

    The difference is along `half`, (D, D/2). The new direction is at right angles to it, to `side`, (D,), and
    to the differences between `places`, (t, D).
    """
    up, *_, down = block.feed_forward_layer
    size_direction = orthogonal_direction(half, side[:, None], weights.whitening(places)[0].T)
    weights.scale_down(down)
    down.weight[:, : len(half)] = 0
    weights.add_size(half, size_direction, up, down)
    return size_direction


def orthogonal_direction(*matrices: Tensor) -> Tensor:
    """Return the unit vector, (D,), with the least sum of squared cosines to all columns, (D, n) each."""
    directions = F.normalize(torch.cat(matrices, 1), dim=0)
    return torch.linalg.eigh(directions @ directions.T).eigenvectors[:, 0]  # of the least eigenvalue


@torch.no_grad()
def gather(encoding: ImageEncoder, inter: ClipJointEncoder) -> None:
    """After `compare`, make class tokens attend to changed tokens in the last block of the pair encoder.

    A single block already compares the images, so nothing is done. Only for the model of the adaptation
    phase.
    """
    if len(inter.blocks) < 2:
        return
    W, attention = inter.project.map.weight, [*inter.blocks.values()][-1].attention
    E, D, h = *W.shape, attention.heads
    half, size_direction, side = W[: E // 2].T, W[E // 2], W[E // 2 + 1]
    places = weights.whitening(encoding.patches.positions)[0]
    direction = orthogonal_direction(
        half, size_direction[:, None], side[:, None], places.T
    )  # of class tokens
    encoding.patches.token.copy_(TOKEN * direction)
    patch_weight = last_map(encoding)
    patch_weight -= torch.outer(direction, direction) @ patch_weight
    weights.scale_down(attention.query, attention.key)
    weights.attend_to_changes(attention, size_direction, side)
    for channel in range(0, D, D // h):
        attention.query.weight[channel] = QUERY_GAIN * math.sqrt(D // h) / math.sqrt(D) * direction
        attention.query.bias[channel] = 0
    values = nn.init.orthogonal_(attention.value.weight)
    attention.output.weight.copy_(VALUE_GAIN * half @ half.T @ values.T)


@torch.no_grad()
def initialise_captioner(
    encoding: ImageEncoder, inter: PairEncoder, memories: MemoryEncoder, decoder: ClipDecoder
) -> bool:
    """Make the decoder attend to tokens that differ from the same place in the other image.

    Returns True if the comparison is done in the captioner's encoder, because no block before it sees both
    images.
    """
    directions: Any = compare(encoding, inter, memories.layers[0])
    half, size_direction, side = directions
    compares = not inter.blocks
    for layer in memories.layers[1:] if compares else memories.layers:
        weights.scale_block(layer)
    for attention in (layer.cross_attention for layer in decoder.layers):
        for map_ in (attention.key, attention.value):
            map_.weight.copy_(GAIN * map_.weight @ half @ half.T)
        weights.attend_to_changes(attention, size_direction, side)
    return compares
