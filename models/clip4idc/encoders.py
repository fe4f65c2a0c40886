"""CLIP's image and text transformers (Radford et al., 2021; CLIP4IDC section 1), of any size.

U: images of H x W pixels; n: patches; t = n + 1: tokens, class token first; C: channels of
features; D: width; E: joint width; B: captions; L: words.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from models.clip4idc.switches import ClipSwitches
from models.common.grid_embedding import DataSizes
from models.common.transformer_block import QuickGelu, TransformerBlock

END = 3  # <END>, whose state is the caption's vector
MEAN = (0.48145466, 0.4578275, 0.40821073)  # CLIP's, of RGB in 0..1
STD = (0.26862954, 0.26130258, 0.27577711)
TABLE, POSITION = 0.02, 0.01  # standard deviations of the initial word and position embeddings
STEM = (16, 32, 64)  # channels of the convolutions before the last


@dataclass(frozen=True)
class ClipSizes(DataSizes):
    """Widths and depths."""

    patch: int  # side of a patch in pixels, or in cells of features
    width: int  # D of the image's blocks
    heads: int
    intra: int  # blocks on single images
    inter: int  # blocks on the tokens of both images
    text_width: int
    text_heads: int
    text_layers: int
    context: int  # positions of the text
    joint: int  # E: width of the joint space and of the captioner
    caption_heads: int
    caption_layers: int  # layers of the captioner's encoder, and of its decoder

    def __post_init__(self) -> None:
        """Check that the sizes fit each other. Raises ValueError if not."""
        for width, heads in (("width", "heads"), ("text_width", "text_heads"), ("joint", "caption_heads")):
            if getattr(self, width) % getattr(self, heads):
                raise ValueError(
                    f"{width} {getattr(self, width)} is not a multiple of {heads} {getattr(self, heads)}"
                )
        if any(side % self.patch for side in self.grid):
            H, W = self.grid
            raise ValueError(
                f"{H} x {W} pixels, or cells, are not whole patches of {self.patch}; change pixels or patch"
            )
        if self.longest > self.context:
            raise ValueError(
                f"captions have up to {self.longest} tokens, context is {self.context}; raise it, "
                f"or cut captions by text.max_tokens"
            )

    @property
    def cells(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.grid[0] // self.patch, self.grid[1] // self.patch


def clip_block(width: int, heads: int) -> TransformerBlock:
    """Build CLIP's block: pre-LN, QuickGELU, no dropout."""
    return TransformerBlock(width, heads, activation=QuickGelu(), pre_norm=True, name="mlp")


class Patches(nn.Module):
    """Pixels to tokens: class token and patches, plus positions, then ln_pre.

    Two switch values are not CLIP's, for training on few images: `convolutions`, 3 x 3 convolutions of stride
    2 instead of one map; `features`, a map of the cells of a frozen backbone's grid.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, sizes: ClipSizes, switches: ClipSwitches):
        super().__init__()
        self.cells = sizes.cells
        self.of_pixels = switches.patches != "features"
        self.project = patches(sizes, switches)
        scale = sizes.width**-0.5
        self.token = nn.Parameter(torch.randn(sizes.width) * scale)
        self.positions = nn.Parameter(torch.randn(1 + math.prod(sizes.cells), sizes.width) * scale)
        self.norm = nn.LayerNorm(sizes.width)
        self.register_buffer("mean", torch.tensor(MEAN)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(STD)[:, None, None], persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """RGB 0..255, (U, 3, H, W), or features (U, C, H, W) -> (U, t, D)."""
        normed = (pixels / 255 - self.mean) / self.std if self.of_pixels else pixels
        normed = normed.to(next(self.project.parameters()).dtype)
        patches = self.project(normed).flatten(2).transpose(1, 2)  # (U, n, D)
        token = self.token.to(patches.dtype).expand(len(patches), 1, -1)
        return self.norm(torch.cat([token, patches], 1) + added(self.positions, normed))


def added(x: Tensor, to: Tensor) -> Tensor:
    """Convert `x` to 16 bits if the activation `to` has 16 bits (`halve` in model.py)."""
    return x.half() if to.dtype == torch.float16 else x


def patches(sizes: ClipSizes, switches: ClipSwitches) -> nn.Module:
    """Build the map (U, C, H, W) -> (U, D, rows, columns) of patches."""
    if switches.patches == "convolutions":
        return convolutions(sizes)
    if switches.patches == "linear":
        return nn.Conv2d(sizes.channels, sizes.width, sizes.patch, sizes.patch, bias=False)
    project = nn.Conv2d(sizes.channels, sizes.width, 1)
    nn.init.normal_(project.weight, std=sizes.channels**-0.5)  # at the scale of the positions, like CLIP's
    return nn.Sequential(nn.AvgPool2d(sizes.patch), project)


def convolutions(sizes: ClipSizes) -> nn.Module:
    """Build 3 x 3 convolutions of stride 2 that reduce a patch to 1 x 1.

    Raises ValueError unless the patch is 2, 4, 8 or 16.
    """
    steps = round(math.log2(sizes.patch))
    if 2**steps != sizes.patch or not 1 <= steps <= len(STEM) + 1:
        raise ValueError(f"patches: convolutions need a patch of 2, 4, 8 or 16, not {sizes.patch}")
    widths = [sizes.channels, *STEM[len(STEM) + 1 - steps :], sizes.width]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Conv2d(before, after, 3, 2, 1), nn.GroupNorm(1, after), nn.GELU()]
    return nn.Sequential(*layers[:-2])  # ln_pre follows the last convolution


class ImageEncoder(nn.Module):
    """F_intra (CLIP4IDC Eq. 1-3): the first blocks of CLIP, on single images."""

    def __init__(self, sizes: ClipSizes, switches: ClipSwitches, blocks: int):
        super().__init__()
        self.patches = Patches(sizes, switches)
        self.blocks = numbered(sizes, range(blocks))

    def forward(self, pixels: Tensor) -> Tensor:
        """RGB 0..255, (U, 3, H, W), or features (U, C, H, W) -> (U, t, D)."""
        x = self.patches(pixels)
        for block in self.blocks.values():
            x = block(x)
        return x


def numbered(sizes: ClipSizes, numbers: range) -> nn.ModuleDict:
    """Build blocks, named by their numbers in the whole image tower, so that names fit every split."""
    return nn.ModuleDict({str(number): clip_block(sizes.width, sizes.heads) for number in numbers})


class Projection(nn.Module):
    """ln_post, then W, D -> E, for every token."""

    def __init__(self, sizes: ClipSizes):
        super().__init__()
        self.norm = nn.LayerNorm(sizes.width)
        self.map = nn.Linear(sizes.width, sizes.joint, bias=False)
        nn.init.normal_(self.map.weight, std=sizes.width**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., E)."""
        return self.map(self.norm(x))


class TextEncoder(nn.Module):
    """Vector of a caption: the last state at its <END>, through the projection P (CLIP4IDC section 1)."""

    def __init__(self, sizes: ClipSizes):
        super().__init__()
        D = sizes.text_width
        self.tables = Tables(sizes.vocabulary, sizes.context, D)
        self.blocks = nn.ModuleList(clip_block(D, sizes.text_heads) for _ in range(sizes.text_layers))
        self.norm = nn.LayerNorm(D)
        self.map = nn.Linear(D, sizes.joint, bias=False)
        nn.init.normal_(self.map.weight, std=D**-0.5)
        for block in self.blocks:
            initialise(block, sizes.text_layers)

    def forward(self, tokens: Tensor) -> Tensor:
        """Captions (B, L), with <START> and <END>, padded with NULL -> (B, E), not normalised."""
        x = self.tables(tokens)
        x = x.half() if self.map.weight.dtype == torch.float16 else x
        for block in self.blocks:
            x = block(x, causal=True)  # so <END> does not see the padding after it
        ends = (tokens == END).int().argmax(1)  # the first <END>
        last = x[torch.arange(len(x), device=x.device), ends]
        return self.map(self.norm(last))


class Tables(nn.Module):
    """Sum of word and position embedding."""

    def __init__(self, vocabulary: int, context: int, width: int, position: float = POSITION):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(context, width) * position)
        nn.init.normal_(self.tokens.weight, std=TABLE)

    def forward(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Embed tokens (B, L) at positions first, first + 1, ...: (B, L, D)."""
        return self.tokens(tokens) + self.positions[first : first + tokens.shape[1]]


def initialise(block: nn.Module, layers: int) -> None:
    """Initialise one of `layers` text blocks as CLIP does."""
    assert isinstance(block, TransformerBlock)
    D = block.attention.query.in_features
    maps = [D**-0.5] * 3 + [D**-0.5 * (2 * layers) ** -0.5]  # W^Q, W^K, W^V; W^O
    for map_, std in zip(block.attention.children(), maps, strict=True):
        assert isinstance(map_, nn.Linear)
        nn.init.normal_(map_.weight, std=std)
        nn.init.zeros_(map_.bias)
    for map_, std in ((block.fed[0], (2 * D) ** -0.5), (block.fed[2], maps[-1])):
        assert isinstance(map_, nn.Linear)
        nn.init.normal_(map_.weight, std=std)
