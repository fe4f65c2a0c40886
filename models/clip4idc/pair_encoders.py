"""How CLIP4IDC's image encoder sees two images at once, and where its class tokens look.

B pairs, t = n + 1 tokens an image (class token first), D width, E joint width. Equations: docs/methods.md,
"CLIP4IDC".
"""

import torch
from torch import Tensor, nn

from models.clip4idc.encoders import ClipSizes, ImageEncoder, Projection, added, numbered
from models.clip4idc.switches import ClipSwitches
from models.common.transformer_block import TransformerBlock


class JointEncoder(nn.Module):
    """F_inter (CLIP4IDC Eq. 4-5): the last blocks on the tokens of both images, then W on every token."""

    def __init__(self, sizes: ClipSizes, switches: ClipSwitches):
        super().__init__()
        D, (rows, columns) = sizes.width, sizes.cells
        t = 1 + rows * columns
        self.images = nn.Parameter(torch.randn(2, D) * D**-0.5)  # e
        self.positions = nn.Parameter(torch.randn(2 * t, D) * D**-0.5)  # p
        self.norm = nn.LayerNorm(D) if switches.joint_norm else nn.Identity()
        self.blocks = numbered(sizes, range(sizes.intra, sizes.intra + sizes.inter))
        self.project = Projection(sizes)

    def joined(self, before: Tensor, after: Tensor) -> Tensor:
        """(B, t, D) each -> Z, (B, 2t, D) (Eq. 4)."""
        images, positions = added(self.images, before), added(self.positions, before)
        Z = torch.cat([before + images[0], after + images[1]], 1) + positions
        return self.norm(Z)

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        """(B, t, D) each -> F', (B, 2t, E)."""
        Z = self.joined(before, after)
        for block in self.blocks.values():
            Z = block(Z)
        return self.project(Z)


class SeparateEncoder(nn.Module):
    """CLIP-FT's: no block sees both images; F' is each one's tokens, one after the other.

    It has the e of Eq. 4, of which the paper says nothing here: nothing else would tell before from after.
    """

    def __init__(self, sizes: ClipSizes):
        super().__init__()
        self.images = nn.Parameter(torch.randn(2, sizes.width) * sizes.width**-0.5)  # e
        self.blocks = nn.ModuleDict()  # on both images: none
        self.project = Projection(sizes)

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        """(B, t, D) each -> (B, 2t, E)."""
        images = added(self.images, before)
        return self.project(torch.cat([before + images[0], after + images[1]], 1))


def class_maps(
    encoding: nn.Module,
    inter: Tensor | nn.Module,
    before: Tensor,
    after: Tensor,
    cells: tuple[int, int],
) -> dict[str, Tensor]:
    """Where the class tokens look, by block, B x 2 x lines x columns, of both images, (B, 3, H, W) each.

    Of the last block on each image by itself, whose class token looks at its own image, and of the last one
    on both, where the first image's looks at both (CLIP4IDC's figures: blocks 9 and 12); where there are no
    two such blocks, of the last two. The mean of the heads; class tokens left out, each image's sums to 1.
    """
    assert isinstance(encoding, ImageEncoder)
    sides, found = [encoding.patches(image) for image in (before, after)], {}
    alone = dict(encoding.blocks.items())
    joint = dict(inter.blocks.items()) if isinstance(inter, JointEncoder) else {}
    last = [*alone, *joint][-2:]
    shown = {[*alone][-1], [*joint][-1]} if alone and joint else set(last)
    for name, block in alone.items():
        if name in shown:
            found[name] = torch.stack([looks(block, x) for x in sides], 1)  # (B, 2, t)
        sides = [block(x) for x in sides]
    Z = inter.joined(*sides) if isinstance(inter, JointEncoder) else torch.cat(sides, 1)
    for name, block in joint.items():
        if name in shown:
            found[name] = looks(block, Z).unflatten(-1, (2, -1))
        Z = block(Z)
    patches = {f"block {int(name) + 1}": maps[..., 1:] for name, maps in found.items()}
    return {name: (x / x.sum(-1, keepdim=True)).unflatten(-1, cells) for name, x in patches.items()}


def looks(block: nn.Module, x: Tensor) -> Tensor:
    """Where the first token of (B, t, D) looks: (B, t)."""
    assert isinstance(block, TransformerBlock)
    return block.look(x)[:, 0]
