"""First weights of CLIP4IDC for few images: its switch `first_weights: counterpart`. Not published.

Where nothing is pretrained, CLIP's own do not learn to compare two images within a small dataset
(docs/methods.md, "CLIP4IDC"). These are where training begins, and nothing else: all of them learn. What is
CLIP's has to learn slowly (`coef_lr`), or they are undone before a decoder can use them.
D width, E joint width, N cells of an image.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.clip4idc.captioner import ClipDecoder, EncoderLayer, Memories
from models.clip4idc.encoders import Block, ImageEncoder
from models.clip4idc.pair_encoders import JointEncoder, SeparateEncoder
from models.common.attention import MultiHeadAttention, all_of
from models.common.decoder import DecoderLayer
from models.initialisation.counterpart_weights import (
    QUIET,
    calm,
    grid_places,
    look_across,
    look_at,
    side_beside,
    tell,
    whitening,
    within,
)

SHOWN = 0.12  # times the map of a cell: with places longer than it, a layer norm leaves how much cells differ
TOKEN = 6.0  # how long a class token is, beside its place
ASKING = 1.4  # times LOOK and SIDED, for a token sqrt(D) long that were nothing but its own direction
GATHERED = 2.0  # times what class tokens see
GAIN = 6.0  # of the difference, where the decoder looks: two images differ by less than they show


@dataclass
class Differs:
    """Where a token has what differs from its counterpart: directions of E, at right angles."""

    half: Tensor  # E x E/2: the difference
    how_much: Tensor  # E
    side: Tensor  # E: of the first image's tokens


@torch.no_grad()
def compare(
    encoding: ImageEncoder, inter: JointEncoder | SeparateEncoder, layer: EncoderLayer | None = None
) -> Differs | None:
    """Tokens are told apart by their places; the first block on both images compares counterparts.

    In half of its directions a token has the difference from its counterpart then, and along one more how
    large that is. They become the first E/2 + 1 channels of F', then the image's side, then what the cell
    itself shows. Where no block sees both images `layer`, the captioner's first, compares, if it is given.
    Raises ValueError where E is over D, or under 4.
    """
    places = all_places(encoding)
    side = QUIET / 2 * side_beside(places)
    show_beside(encoding.patches.project, places, side)
    inter.images[0], inter.images[1] = side, -side
    if isinstance(inter, JointEncoder):
        inter.positions.zero_()
    W, blocks = inter.project.map.weight, all_of_blocks(inter.blocks)  # W: E x D
    for block in all_of_blocks(encoding.blocks) + blocks[1:]:
        calm(block.attention.output, block.mlp[-1])
    if not blocks:
        return compare_later(W, places, side, layer)
    half = look_across(blocks[0].attention, places, side)  # D x D/2
    W.copy_(in_order(half, tell_differences(half, places, side, blocks[0].mlp), side, fitting(W)))
    one, middle = torch.eye(len(W)), len(W) // 2
    return Differs(one[:, :middle], one[middle], one[middle + 1])


def compare_later(W: Tensor, places: Tensor, side: Tensor, layer: EncoderLayer | None) -> Differs | None:
    """F' begins with the side and with the places, and `layer` compares; W is E x D.

    Raises ValueError where E is odd: half of its directions have the difference.
    """
    known = torch.cat([side[None], whitening(places)[0]])  # the places' strongest directions first
    W.copy_(torch.linalg.qr(known.T, mode="complete").Q[:, : fitting(W)].T)
    if layer is None:
        return None
    if len(W) % 2:
        raise ValueError(f"first_weights: counterpart needs an even joint here, not {len(W)}")
    places, side = places @ W.T, W @ side
    half = look_across(layer.attention, places, side)  # E x E/2
    differs = tell_differences(half, places, side, layer.feed_forward)
    return Differs(half, differs, F.normalize(side, dim=0))


def all_places(encoding: ImageEncoder) -> Tensor:
    """Places of the class token, which stands beyond the last line and column, and of all cells: t x D.

    It has a place of its own: else it compares itself with the mean of all, and nothing differs as much.
    """
    rows, columns = encoding.patches.cells
    waves = grid_places(rows + 1, columns + 1, encoding.patches.positions.shape[1])
    waves = waves.unflatten(0, (rows + 1, columns + 1))
    places = torch.cat([waves[-1:, -1], waves[:-1, :-1].flatten(0, 1)])
    places = QUIET * (places - places.mean(0))
    encoding.patches.positions.copy_(places)
    return places


def show_beside(project: nn.Module, places: Tensor, side: Tensor) -> None:
    """The map of a cell: what it shows is in none of the directions that comparing looks for."""
    toward = F.normalize(side, dim=0)
    shown = last_map(project).mul_(SHOWN)
    shown -= (within(places) + torch.outer(toward, toward)) @ shown


def last_map(project: nn.Module) -> Tensor:
    """The weights of the last map of patches, D x ...: a view."""
    *_, last = project.modules()
    assert isinstance(last, nn.Conv2d)
    return last.weight.flatten(1)


def tell_differences(half: Tensor, places: Tensor, side: Tensor, mlp: nn.Sequential) -> Tensor:
    """The MLP adds how large the difference is along one direction, D, which is returned, and little else.

    The direction is at right angles to `half`, D x D/2, to the side's and to all in which places differ.
    """
    up, *_, down = mlp
    assert isinstance(up, nn.Linear)
    assert isinstance(down, nn.Linear)
    differs = beside(half, side[:, None], whitening(places)[0].T)
    calm(down)
    down.weight[:, : len(half)] = 0
    tell(half, differs, up, down)
    return differs


def all_of_blocks(blocks: nn.ModuleDict) -> list[Block]:
    """The blocks of a tower, in order."""
    return all_of(Block, nn.ModuleList(blocks.values()))


def beside(*known: Tensor) -> Tensor:
    """The direction, D, that is least in those of D x any, at right angles to all where there is room."""
    directions = F.normalize(torch.cat(known, 1), dim=0)
    return torch.linalg.eigh(directions @ directions.T).eigenvectors[:, 0]  # of the least eigenvalue


def fitting(W: Tensor) -> int:
    """E of W, E x D. Raises ValueError where nothing can be compared in so many channels."""
    E, D = W.shape
    if not 4 <= E <= D:
        raise ValueError(f"first_weights: counterpart needs a joint from 4 to width's {D}, not {E}")
    return E


def in_order(half: Tensor, differs: Tensor, side: Tensor, joint: int) -> Tensor:
    """W, E x D: E/2 directions of `half`, D x D/2, `differs`, the side's, and others at right angles."""
    D = len(half)
    told = torch.stack([differs, F.normalize(side, dim=0)], 1)
    rest = torch.linalg.qr(torch.cat([half, told], 1), mode="complete").Q[:, D // 2 + 2 :]
    return torch.cat([half[:, : joint // 2], told, rest], 1).T[:joint]


@torch.no_grad()
def gather(encoding: ImageEncoder, inter: JointEncoder) -> None:
    """For the adaptation: class tokens, whose mean is v, begin by gathering in the last block what differs.

    They alone ask: by their token, which is in a direction of its own. Call `compare` before.
    """
    if len(inter.blocks) < 2:
        return  # the one block compares
    W, attention = inter.project.map.weight, all_of_blocks(inter.blocks)[-1].attention
    assert isinstance(attention.output, nn.Linear)
    E, D, h = *W.shape, attention.heads
    half, differs, side = W[: E // 2].T, W[E // 2], W[E // 2 + 1]
    own = beside(half, differs[:, None], side[:, None], whitening(encoding.patches.positions)[0].T)
    encoding.patches.token.copy_(TOKEN * own)
    shown = last_map(encoding.patches.project)
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
    """The decoder's keys and values begin as a map of the difference alone; its heads look where it is.

    Returns whether the captioner's first layer is what compares: where no block sees both images.
    """
    first, *later = all_of(EncoderLayer, memories.layers)
    found = compare(encoding, inter, first)
    assert found
    late = not inter.blocks
    for encoder in later if late else [first, *later]:
        calm(encoder.attention.output, encoder.feed_forward[-1])
    for layer in all_of(DecoderLayer, decoder.layers):
        assert isinstance(layer.cross_attention, MultiHeadAttention)
        for each in (layer.cross_attention.key, layer.cross_attention.value):
            each.weight.copy_(GAIN * each.weight @ found.half @ found.half.T)
        look_at(layer.cross_attention, found.how_much, found.side)
    return late
