"""First weights of CLIP4IDC for few images: its switch `first_weights: counterpart`. Not published.

Where nothing is pretrained, CLIP's own do not learn to compare two images within a small dataset
(docs/methods.md, "CLIP4IDC"). These are where training begins, and nothing else: all of them learn. What is
CLIP's has to learn slowly (`coef_lr`), or they are undone before a decoder can use them.
D width, E joint width, N cells of an image.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.attention import MultiHeadAttention, all_of
from models.clip4idc.captioner import ClipDecoder, EncoderLayer, Memories
from models.clip4idc.encoders import Block, ImageEncoder
from models.clip4idc.pair_encoders import JointEncoder, SeparateEncoder
from models.counterpart_weights import QUIET, calm, grid_places, look_across, side_beside, within
from models.decoder import DecoderLayer

GAIN = 4.0  # of the difference, where the decoder looks: two images differ by less than they show


@torch.no_grad()
def compare(encoding: ImageEncoder, inter: JointEncoder | SeparateEncoder) -> None:
    """Cells are told apart by their places; the first block on both images compares counterparts.

    In half of its directions a cell has the difference from its counterpart then. They become the first E/2
    channels of F', what the cell itself shows the others. Raises ValueError where E is over D.
    """
    rows, columns = encoding.patches.cells
    places = QUIET * grid_places(rows, columns, encoding.patches.positions.shape[1])
    encoding.patches.positions[1:] = places
    side = QUIET / 2 * side_beside(places)
    show_beside(encoding.patches.project, places, side)
    others = all_of_blocks(encoding.blocks)
    if isinstance(inter, JointEncoder) and inter.blocks:
        first, *later = all_of_blocks(inter.blocks)
        tell_images_apart(inter, side)
        half = look_across(first.attention, places, side)  # D x D/2
        inter.project.map.weight.copy_(difference_first(half, len(inter.project.map.weight)))
        calm(first.mlp[-1])
        others += later
    for block in others:
        calm(block.attention.output, block.mlp[-1])


def show_beside(project: nn.Module, places: Tensor, side: Tensor) -> None:
    """The map of a cell: what it shows is in none of the directions that comparing looks for."""
    *_, last = project.modules()
    assert isinstance(last, nn.Conv2d)
    toward = F.normalize(side, dim=0)
    shown = last.weight.flatten(1)
    shown -= (within(places) + torch.outer(toward, toward)) @ shown


def all_of_blocks(blocks: nn.ModuleDict) -> list[Block]:
    """The blocks of a tower, in order."""
    return all_of(Block, nn.ModuleList(blocks.values()))


def tell_images_apart(inter: JointEncoder, side: Tensor) -> None:
    """e: opposite sides of the images' cells. p is 0, but takes the side off class tokens again.

    They have no place: with a side, each cell would look at the other image's class token.
    """
    inter.images[0], inter.images[1] = side, -side
    before, after = inter.positions.zero_().chunk(2)  # views
    before[0], after[0] = -side, side


def difference_first(half: Tensor, joint: int) -> Tensor:
    """W, E x D: E/2 of the directions in `half`, D x D/2, then as many of those at right angles to them."""
    D = len(half)
    if joint > D:
        raise ValueError(f"first_weights: counterpart needs a joint of at most width's {D}, not {joint}")
    rest = torch.linalg.qr(half, mode="complete").Q[:, D // 2 :]
    return torch.cat([half[:, : joint // 2], rest[:, : joint - joint // 2]], 1).T


@torch.no_grad()
def look_at_differences(memories: Memories, decoder: ClipDecoder) -> None:
    """The decoder's keys and values begin as a map of F's difference alone."""
    for encoder in all_of(EncoderLayer, memories.layers):
        calm(encoder.attention.output, encoder.feed_forward[-1])
    for layer in all_of(DecoderLayer, decoder.layers):
        assert isinstance(layer.cross_attention, MultiHeadAttention)
        for each in (layer.cross_attention.key, layer.cross_attention.value):
            difference, shown = each.weight.chunk(2, 1)  # E x E/2 each
            difference.mul_(GAIN)
            shown.zero_()
