"""CLIP4IDC's encoders of image pairs, and the attention maps of their class tokens.

B: pairs; n: patches of an image; t = n + 1: tokens of an image, class token first; D: width; E: width of the
space of pairs and captions; H x W: pixels of an image. Equations: docs/methods.md, "CLIP4IDC".
"""

from typing import Any

import torch
from torch import Tensor, nn

from models.clip4idc.encoders import ClipSizes, ClipSwitches, ImageEncoder, Projection, cast_like, numbered


class PairEncoder(nn.Module):
    """Base class of pair encoders: blocks on the joined tokens of both images, then a linear map."""

    images: nn.Parameter  # e, (2, D): a vector for each image (Eq. 4)
    blocks: Any  # nn.ModuleDict of TransformerBlocks
    project: Projection

    def joined(self, before: Tensor, after: Tensor) -> Tensor:
        """Join the tokens of both images, (B, t, D) each, to one sequence Z, (B, 2t, D) (Eq. 4)."""
        images = cast_like(self.images, before)
        return torch.cat([before + images[0], after + images[1]], 1)

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        """Return the encoded pair F', (B, 2t, E), for the tokens of both images, (B, t, D) each."""
        Z = self.joined(before, after)
        for block in self.blocks.values():
            Z = block(Z)
        return self.project(Z)


class ClipJointEncoder(PairEncoder):
    """Pair encoder F_inter (CLIP4IDC Eq. 4-5): CLIP's last blocks, on both images, then a linear map."""

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
        return self.norm(super().joined(before, after) + cast_like(self.positions, before))


class SeparateEncoder(PairEncoder):
    """CLIP-FT's pair encoder: it concatenates both images' tokens. No block attends across the images.

    To the tokens of each image, a learned vector is added: one for before and one for after (e in Eq.
    4). The paper does not mention e for CLIP-FT, but without e the images could not be distinguished.
    """

    def __init__(self, sizes: ClipSizes):
        super().__init__()
        self.images = nn.Parameter(torch.randn(2, sizes.width) * sizes.width**-0.5)  # e
        self.blocks = nn.ModuleDict()  # no blocks on both images
        self.project = Projection(sizes)


def class_maps(
    encoding: ImageEncoder, inter: PairEncoder, before: Tensor, after: Tensor, cells: tuple[int, int]
) -> dict[str, Tensor]:
    """Return the class tokens' attention in two blocks: name -> (B, 2, rows, columns), each map sums to 1.

    The blocks are the last that sees a single image and the last that sees both, 9 and 12 in CLIP4IDC's
    figures; or the last two blocks, if all are of one kind. `before` and `after` are (B, 3, H, W); `cells`
    are the rows and columns of patches.

    In a block that sees both images, both maps show the attention of the before image's class token.
    """
    single, joint = [*encoding.blocks], [*inter.blocks]  # names of blocks
    names = {single[-1], joint[-1]} if single and joint else {*(single + joint)[-2:]}
    images, rows = [encoding.patches(image) for image in (before, after)], {}
    for name, block in encoding.blocks.items():
        if name in names:
            rows[name] = torch.stack([block.weights(x)[:, 0] for x in images], 1)  # (B, 2, t)
        images = [block(x) for x in images]
    Z = inter.joined(*images)
    for name, block in inter.blocks.items():
        if name in names:
            rows[name] = block.weights(Z)[:, 0].unflatten(-1, (2, -1))
        Z = block(Z)
    patches = {f"block {int(name) + 1}": row[..., 1:] for name, row in rows.items()}
    return {name: (x / x.sum(-1, keepdim=True)).unflatten(-1, cells) for name, x in patches.items()}
