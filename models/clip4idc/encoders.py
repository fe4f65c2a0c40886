"""CLIP's image and text encoders (Radford et al., 2021; CLIP4IDC section 1); sizes and switches of CLIP4IDC.

U: number of images; H x W: pixels of an image, or cells of its features; n: patches of an image;
t = n + 1: tokens of an image, class token first; C: channels of the input; D: width; E: width of the
space of images and captions; B: captions; L: words.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.common.attention import QuickGelu, TransformerBlock
from models.common.grid_embedding import DataSizes

END = 3  # <END>; its state becomes the caption's vector
MEAN = (0.48145466, 0.4578275, 0.40821073)  # CLIP's mean of RGB values in 0..1
STD = (0.26862954, 0.26130258, 0.27577711)  # their standard deviation
TABLE, POSITION = 0.02, 0.01  # standard deviations of the initial word and position embeddings


@dataclass(frozen=True)
class ClipSizes(DataSizes):
    """Sizes of CLIP4IDC: image encoder, text encoder and captioner."""

    multiples = (("width", "heads"), ("text_width", "text_heads"), ("joint", "caption_heads"))

    patch: int  # side of a patch in pixels, or in cells of features
    width: int  # D of the image encoder's blocks
    heads: int
    intra: int  # number of blocks that see a single image
    inter: int  # number of blocks that see the tokens of both images
    text_width: int
    text_heads: int
    text_layers: int
    context: int  # largest number of tokens of a caption
    joint: int  # E: width of the joint space and of the captioner
    caption_heads: int
    caption_layers: int  # layers of the captioner's encoder, and of its decoder

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(side % self.patch for side in self.grid):
            H, W = self.grid
            raise ValueError(
                f"{H} x {W} pixels (cells) are not whole patches of {self.patch}; change pixels or patch"
            )
        if self.longest > self.context:
            raise ValueError(
                f"captions have up to {self.longest} tokens, context is {self.context}; raise it, "
                f"or cut captions by text.max_tokens"
            )

    @property
    def cells(self) -> tuple[int, int]:
        return self.grid[0] // self.patch, self.grid[1] // self.patch


@dataclass(frozen=True)
class ClipSwitches:
    """Switches of CLIP4IDC: options in which the paper, the released program and the ablations differ.

    The defaults are the paper's. The comment above a switch describes its values, separated by |.
    """

    # true: a layer norm follows after the tokens of both images are joined (Eq. 4)
    joint_norm: bool = False
    # retrieval (Eq. 8): sum of both directions' cross-entropies | their mean
    directions: Literal["sum", "mean"] = "sum"
    # learning rate of e and p (Eq. 4) in the adaptation: the rate of CLIP's encoder (coef_lr times the
    # phase's rate) | the phase's rate
    new_rate: Literal["encoder", "base"] = "encoder"
    # tensors that are not trained: none | patches, class token, positions and first layer norm of the image
    # encoder, and the text's word and position embeddings | as `stem`, but the captioner's word embeddings
    # are trained (the program on Spot-the-Diff) | as `stem`, and in captioning the whole image encoder
    # (Table 7)
    frozen: Literal["none", "stem", "stem_but_words", "encoder"] = "none"
    # a layer of the captioner's decoder attends to: the encoder's last layer | the encoder's layer of the
    # same number
    memory: Literal["last", "layerwise"] = "last"
    # the captioner's word and position embeddings: its own | CLIP's, frozen with the stem
    words: Literal["own", "clip"] = "own"
    # patches are computed by: CLIP's linear map | averaging `patch` x `patch` cells of a frozen backbone's
    # features, then a linear map (not published, for training on few images)
    patches: Literal["linear", "features"] = "linear"
    # initial weights: CLIP's | weights with which the first block that sees both images compares a token with
    # the same token of the other image, and the decoder attends to the difference
    # (models/initialisation/clip4idc.py); the captioner's maps are scaled to their width (not published)
    first_weights: Literal["clip", "counterpart"] = "clip"


RELEASED = ClipSwitches(
    joint_norm=True, directions="mean", new_rate="base", frozen="stem", memory="layerwise", words="clip"
)


def clip_block(width: int, heads: int) -> TransformerBlock:
    return TransformerBlock(width, heads, activation=QuickGelu(), pre_norm=True, name="mlp")


class Patches(nn.Module):
    """First layer of the image encoder; it turns an image into a class token and a token per patch.

    Position embeddings are added to the tokens, and the layer norm ln_pre follows. With the switch `patches:
    features`, which CLIP does not have, the input is the cells of a frozen backbone's grid instead of pixels.
    """

    def __init__(self, sizes: ClipSizes, switches: ClipSwitches):
        super().__init__()
        self.cells = sizes.cells
        self.of_pixels = switches.patches != "features"
        self.project = patches(sizes, switches)
        scale = sizes.width**-0.5
        self.token = nn.Parameter(torch.randn(sizes.width) * scale)
        self.positions = nn.Parameter(torch.randn(1 + math.prod(sizes.cells), sizes.width) * scale)
        self.norm = nn.LayerNorm(sizes.width)
        self.mean = nn.Buffer(torch.tensor(MEAN)[:, None, None], persistent=False)
        self.std = nn.Buffer(torch.tensor(STD)[:, None, None], persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Embed U images, RGB in 0..255 or features: (U, C, H, W) -> class token and patches, (U, t, D)."""
        normed = (pixels / 255 - self.mean) / self.std if self.of_pixels else pixels
        normed = normed.to(next(self.project.parameters()).dtype)
        patches = self.project(normed).flatten(2).transpose(1, 2)  # (U, n, D)
        token = self.token.to(patches.dtype).expand(len(patches), 1, -1)
        return self.norm(torch.cat([token, patches], 1) + cast_like(self.positions, normed))


def cast_like(x: Tensor, other: Tensor) -> Tensor:
    return x.half() if other.dtype == torch.float16 else x


def patches(sizes: ClipSizes, switches: ClipSwitches) -> nn.Module:
    """Build the layer that turns images or features (U, C, H, W) into patches (U, D, rows, columns)."""
    if switches.patches == "linear":
        return nn.Conv2d(sizes.channels, sizes.width, sizes.patch, sizes.patch, bias=False)
    project = nn.Conv2d(sizes.channels, sizes.width, 1)
    nn.init.normal_(project.weight, std=sizes.channels**-0.5)  # scaled like positions, as in CLIP
    return nn.Sequential(nn.AvgPool2d(sizes.patch), project)


class ImageEncoder(nn.Module):
    """F_intra (CLIP4IDC Eq. 1-3): the first blocks of CLIP's image encoder, which see one image at a time."""

    def __init__(self, sizes: ClipSizes, switches: ClipSwitches, blocks: int):
        super().__init__()
        self.patches = Patches(sizes, switches)
        self.blocks = numbered(sizes, range(blocks))

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode RGB images in 0..255, (U, 3, H, W), or features (U, C, H, W), as tokens (U, t, D)."""
        x = self.patches(pixels)
        for block in self.blocks.values():
            x = block(x)
        return x


def numbered(sizes: ClipSizes, numbers: range) -> Any:
    return nn.ModuleDict({str(number): clip_block(sizes.width, sizes.heads) for number in numbers})


class Projection(nn.Module):
    """Layer norm ln_post and then the linear map W from D to E channels, applied to every token."""

    def __init__(self, sizes: ClipSizes):
        super().__init__()
        self.norm = nn.LayerNorm(sizes.width)
        self.map = nn.Linear(sizes.width, sizes.joint, bias=False)
        nn.init.normal_(self.map.weight, std=sizes.width**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.map(self.norm(x))


class TextEncoder(nn.Module):
    """Text encoder (CLIP4IDC section 1), which computes a vector for each caption.

    The vector is the output of the last block at <END>, after a layer norm and a linear map.
    """

    def __init__(self, sizes: ClipSizes):
        super().__init__()
        D = sizes.text_width
        self.tables = Tables(sizes.vocabulary, sizes.context, D)
        blocks = [clip_block(D, sizes.text_heads) for _ in range(sizes.text_layers)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(D)
        self.map = nn.Linear(D, sizes.joint, bias=False)
        nn.init.normal_(self.map.weight, std=D**-0.5)
        for block in blocks:
            initialise(block, sizes.text_layers)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the captions' vectors, (B, E), not normalised; `tokens`, (B, L), have <START> and <END>."""
        x = self.tables(tokens)
        x = x.half() if self.map.weight.dtype == torch.float16 else x
        for block in self.blocks:
            x = block(x, causal=True)  # causal, so that <END> does not see the padding after it
        ends = (tokens == END).int().argmax(1)  # the first <END>
        last = x[torch.arange(len(x), device=x.device), ends]
        return self.map(self.norm(last))


class Tables(nn.Module):
    """Embedding of a text: the sum of word embeddings and position embeddings."""

    def __init__(self, vocabulary: int, context: int, width: int, position: float = POSITION):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(context, width) * position)
        nn.init.normal_(self.tokens.weight, std=TABLE)

    def forward(self, tokens: Tensor, first: int = 0) -> Tensor:
        return self.tokens(tokens) + self.positions[first : first + tokens.shape[1]]


def initialise(block: TransformerBlock, layers: int) -> None:
    """Initialise a block of the text encoder as CLIP does; `layers` is the encoder's number of blocks."""
    attention, (w1, _, w2), D = block.attention, block.feed_forward_layer, block.attention.query.in_features
    narrow = D**-0.5 * (2 * layers) ** -0.5  # standard deviation of maps whose output is added to a residual
    for map_ in (attention.query, attention.key, attention.value):
        nn.init.normal_(map_.weight, std=D**-0.5)
        nn.init.zeros_(map_.bias)
    nn.init.normal_(attention.output.weight, std=narrow)
    nn.init.zeros_(attention.output.bias)
    nn.init.normal_(w1.weight, std=(2 * D) ** -0.5)
    nn.init.normal_(w2.weight, std=narrow)
