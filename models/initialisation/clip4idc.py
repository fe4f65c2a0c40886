"""Initial weights of CLIP4IDC for training on few images: the switch `first_weights: counterpart`.

With these weights, a model learns to compare two images from a small dataset without pretraining
(docs/methods.md, "CLIP4IDC"). CLIP's image encoder must learn slowly (`coef_lr`); otherwise training changes
its weights before the decoder can use them. A token's counterpart is the token at the same place in the other
image. D: width; E: width of the space of pairs and captions; N: cells of an image; t = N + 1: tokens of an
image, class token first.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.clip4idc.captioner import ClipDecoder, Memories
from models.clip4idc.encoders import ImageEncoder
from models.clip4idc.pair_encoders import JointEncoder, SeparateEncoder
from models.common.attention import MultiHeadAttention, all_of
from models.common.decoder import DecoderLayer
from models.common.transformer_block import TransformerBlock
from models.initialisation.counterpart_weights import (
    QUIET,
    SHOWN,
    calm,
    calm_block,
    grid_places,
    look_across,
    look_at,
    side_beside,
    tell,
    whitening,
    within,
)

TOKEN = 6.0  # length of a class token without its position
# factor of LOOK and SIDED in the logits of a class token that is sqrt(D) long and has only its own direction
ASKING = 1.4
GATHERED = 2.0  # factor of the values that class tokens gather
GAIN = 6.0  # factor of the difference in the decoder, because the difference is smaller than the images
# orthogonal directions in the space of E channels: of the difference, (E, E/2); of the difference's size,
# (E,); of the image, (E,), positive for the first image's tokens and negative for the second image's
Directions = tuple[Tensor, Tensor, Tensor]


@torch.no_grad()
def compare(
    encoding: ImageEncoder, inter: JointEncoder | SeparateEncoder, layer: TransformerBlock | None = None
) -> Directions | None:
    """Initialise the first block that sees both images so that it compares each token with its counterpart.

    The first E/2 channels of F', the pair encoder's output, then hold the difference of a token from its
    counterpart. The next two channels hold the size of this difference and the token's image. The other
    channels hold the content of the token itself. If no block sees both images, `layer`, the first layer of
    the captioner, is initialised instead.

    Returns the directions of the difference; None if there is neither such a block nor `layer`. Raises
    ValueError if E is above D or below 4, or if E is odd and `layer` is initialised.
    """
    places = all_places(encoding)
    side = QUIET / 2 * side_beside(places)
    toward = F.normalize(side, dim=0)
    shown = last_map(encoding).mul_(SHOWN)  # content avoids the directions that the comparison uses
    shown -= (within(places) + torch.outer(toward, toward)) @ shown
    inter.images[0], inter.images[1] = side, -side
    if isinstance(inter, JointEncoder):
        inter.positions.zero_()
    W, blocks = inter.project.map.weight, all_of_blocks(inter.blocks)  # W: (E, D)
    (E, D), first = W.shape, blocks[0] if blocks else None
    for block in all_of_blocks(encoding.blocks) + blocks[1:]:
        calm_block(block)
    if not 4 <= E <= D:
        raise ValueError(f"first_weights: counterpart needs a joint from 4 to width's {D}, not {E}")
    if first is None:
        return compare_later(W, places, side, layer)
    half = look_across(first.attention, places, side)  # (D, D/2)
    differs = tell_differences(half, places, side, first.fed)
    known = torch.stack([differs, F.normalize(side, dim=0)], 1)
    rest = torch.linalg.qr(torch.cat([half, known], 1), mode="complete").Q[:, D // 2 + 2 :]
    W.copy_(torch.cat([half[:, : E // 2], known, rest], 1).T[:E])
    one, middle = torch.eye(E), E // 2
    return one[:, :middle], one[middle], one[middle + 1]


def compare_later(
    W: Tensor, places: Tensor, side: Tensor, layer: TransformerBlock | None
) -> Directions | None:
    """Initialise W, and `layer` of the captioner so that it compares each token with its counterpart.

    This is for models in which no block sees both images before the captioner. W, (E, D), is the linear map
    to F'. It is set so that the first channels of F' hold the token's image and place.

    Returns the directions of the difference, or None if `layer` is None. Raises ValueError if E is odd and
    `layer` is not None.
    """
    known = torch.cat([side[None], whitening(places)[0]])  # the strongest directions of places come first
    W.copy_(torch.linalg.qr(known.T, mode="complete").Q[:, : len(W)].T)
    if layer is None:
        return None
    if len(W) % 2:
        raise ValueError(f"first_weights: counterpart needs an even joint here, not {len(W)}")
    places, side = places @ W.T, W @ side
    half = look_across(layer.attention, places, side)  # (E, E/2)
    differs = tell_differences(half, places, side, layer.fed)
    return half, differs, F.normalize(side, dim=0)


def all_places(encoding: ImageEncoder) -> Tensor:
    """Set the position embeddings of the class token and of all cells, and return them, (t, D).

    The class token gets a place beyond the last row and column, so that it is compared with the class token
    of the other image.
    """
    rows, columns = encoding.patches.cells
    waves = grid_places(rows + 1, columns + 1, encoding.patches.positions.shape[1])
    waves = waves.unflatten(0, (rows + 1, columns + 1))
    places = torch.cat([waves[-1:, -1], waves[:-1, :-1].flatten(0, 1)])
    places = QUIET * (places - places.mean(0))
    encoding.patches.positions.copy_(places)
    return places


def last_map(encoding: ImageEncoder) -> Tensor:
    """Return the weights of the last convolution in the first layer of the image encoder.

    The result is a view of the shape (D, inputs).
    """
    *_, last = encoding.patches.project.modules()
    assert isinstance(last, nn.Conv2d)
    return last.weight.flatten(1)


def tell_differences(half: Tensor, places: Tensor, side: Tensor, mlp: nn.Sequential) -> Tensor:
    """Initialise a block's MLP so that it adds the size of a token's difference along a new direction.

    The size says how much the token differs from its counterpart. Returns the new direction, (D,). This
    direction is at right angles to `half`, (D, D/2), the directions that hold the difference. It is also at
    right angles to `side`, and to all differences between rows of `places`.
    """
    up, *_, down = mlp
    assert isinstance(up, nn.Linear)
    assert isinstance(down, nn.Linear)
    differs = beside(half, side[:, None], whitening(places)[0].T)
    calm(down)
    down.weight[:, : len(half)] = 0
    tell(half, differs, up, down)
    return differs


def all_of_blocks(blocks: nn.ModuleDict) -> list[TransformerBlock]:
    """Return the blocks of an encoder as a list, in order, for type checkers."""
    return all_of(TransformerBlock, nn.ModuleList(blocks.values()))


def beside(*known: Tensor) -> Tensor:
    """Return the unit vector, (D,), that is most nearly orthogonal to all columns of all matrices."""
    directions = F.normalize(torch.cat(known, 1), dim=0)
    return torch.linalg.eigh(directions @ directions.T).eigenvectors[:, 0]  # of the least eigenvalue


@torch.no_grad()
def gather(encoding: ImageEncoder, inter: JointEncoder) -> None:
    """Initialise the last block so that class tokens attend to tokens that differ from their counterparts.

    Only the model of the adaptation has these weights. `compare` must be called before. If the pair encoder
    has only one block, nothing is changed, because this block compares the images.
    """
    if len(inter.blocks) < 2:
        return  # the only block compares
    W, attention = inter.project.map.weight, all_of_blocks(inter.blocks)[-1].attention
    assert isinstance(attention.output, nn.Linear)
    E, D, h = *W.shape, attention.heads
    half, differs, side = W[: E // 2].T, W[E // 2], W[E // 2 + 1]
    own = beside(half, differs[:, None], side[:, None], whitening(encoding.patches.positions)[0].T)
    encoding.patches.token.copy_(TOKEN * own)
    shown = last_map(encoding)
    shown -= torch.outer(own, own) @ shown
    calm(attention.query, attention.key)
    look_at(attention, differs, side)
    for channel in range(0, D, D // h):
        attention.query.weight[channel] = ASKING * math.sqrt(D // h) / math.sqrt(D) * own
        attention.query.bias[channel] = 0
    values = nn.init.orthogonal_(attention.value.weight)
    attention.output.weight.copy_(GATHERED * half @ half.T @ values.T)


@torch.no_grad()
def begin_captioner(
    encoding: ImageEncoder, inter: JointEncoder | SeparateEncoder, memories: Memories, decoder: ClipDecoder
) -> bool:
    """Initialise a captioner so that it compares both images and its decoder attends to tokens that differ.

    Returns True if the captioner's encoder compares the images, because no block of the pair encoder does.
    """
    first, *later = all_of(TransformerBlock, memories.layers)
    found = compare(encoding, inter, first)
    assert found
    half, differs, side = found
    late = not inter.blocks
    for encoder in later if late else [first, *later]:
        calm_block(encoder)
    for layer in all_of(DecoderLayer, decoder.layers):
        assert isinstance(layer.cross_attention, MultiHeadAttention)
        for each in (layer.cross_attention.key, layer.cross_attention.value):
            each.weight.copy_(GAIN * each.weight @ half @ half.T)
        look_at(layer.cross_attention, differs, side)
    return late
