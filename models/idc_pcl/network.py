"""IDC-PCL's network (Yao et al., AAAI 2022), which both of its phases train: embeddings, three transformers.

B pairs, C feature channels, N cells an image, D width, h heads, L words, V words of the vocabulary; M = 2(N +
1) image tokens: [IMG1], image 1's cells, [IMG2], image 2's. Equations: docs/methods.md, "IDC-PCL".
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import all_of
from models.common.captioner import Difference
from models.common.decoder import NULL
from models.common.grid_embedding import DataSizes
from models.common.trainable import Group
from models.common.transformer_block import TransformerBlock
from models.idc_pcl.switches import PclSwitches
from models.idc_pcl.word_attention import KeysValues, word_attention
from models.initialisation.counterpart_weights import calm_block, look_across, look_at
from models.initialisation.idc_pcl import kept_apart, raise_within, show_beside

EPSILON, EMBEDDING_EPSILON = 1e-6, 1e-12  # of layer norms: a block's; the embeddings' and MVCL's
CLS_TYPE, WORD_TYPE = 5, 6  # rows of the types; 1 [IMG1], 2 its cells, 3 [IMG2], 4 its cells, 0 unused
GAIN, TYPE_DEVIATION = 4.0, 0.1  # of balanced first weights


@dataclass(frozen=True)
class PclSizes(DataSizes):
    """Widths and depths; `pool` x `pool` cells of the store are averaged to one of the model's."""

    width: int  # D
    heads: int
    single: int  # blocks of the single-image transformer
    pair: int  # of the pair transformer
    cross: int  # of the cross-modal transformer
    pool: int

    def __post_init__(self) -> None:
        """Raises ValueError where they make no model."""
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width {self.width} is not an even multiple of heads ({self.heads})")
        if any(side % self.pool for side in self.grid):
            raise ValueError(f"pool {self.pool} does not divide the grid of {self.grid[0]} x {self.grid[1]}")

    @property
    def cells(self) -> tuple[int, int]:
        """Lines and columns of an image's cells."""
        return self.grid[0] // self.pool, self.grid[1] // self.pool


class DeviationNorm(nn.Module):
    """a (x - mean) / (s + eps) + b, s the unbiased deviation: the released program's layer norm."""

    def __init__(self, width: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return self.weight * centred / (x.std(-1, keepdim=True) + self.epsilon) + self.bias


def rates(coef: float) -> tuple[Group, ...]:
    """Of a phase's learning rate all before V~ learns at `coef` times it.

    A W that grows saturates sigma for good, and at it CLIP4IDC's first weights were undone.
    """
    return Group(r"^difference\.(project|single|pair)\.", coef, True), Group("", 1.0, True)


def norm(width: int, switches: PclSwitches, epsilon: float = EPSILON) -> nn.Module:
    """The layer norm of the variant."""
    if switches.layer_norm == "deviation":
        return DeviationNorm(width, epsilon)
    return nn.LayerNorm(width, epsilon)


def positions(length: int, width: int, switches: PclSwitches) -> Tensor:
    """Fixed positions, length x D float32: of angles in float64, which in float32 are off by 5e-6 at 80."""
    channel = torch.arange(width)
    step = channel if switches.positions == "doubled" else channel // 2
    angle = torch.arange(length)[:, None] / 10_000 ** (2 * step.double() / width)
    return torch.where(channel % 2 == 0, angle.sin(), angle.cos()).float()


def attend_images(
    block: TransformerBlock, x: Tensor, real: Tensor | None = None, every: int = 1
) -> tuple[Tensor, KeysValues]:
    """Self-attention of (B, T, D): the output, and the keys and values, (B, h, T, d) each.

    `real`, (B, T): only tokens where it is true are keys. `every`: only tokens 0, `every`, 2 `every`, ... are
    computed, (B, T/`every`, D).
    """
    y, attention = block.norm_1(x), block.attention
    k, v = attention.keys_values(y)
    q = attention.queries(y[:, ::every])
    return block.rest(x[:, ::every], attention.attend(q, k, v, real=real)), (k, v)


def attend_words(
    block: TransformerBlock, x: Tensor, images: KeysValues, asked: Tensor | None = None
) -> Tensor:
    """Words (RB, L, D): each attends to the image tokens of its pair and to the words up to itself.

    `asked`, (RB, L): only the n words where it is true are computed, (n, D).
    """
    y, attention = block.norm_1(x), block.attention
    dropout = attention.dropout if block.training else 0.0
    heads = word_attention(attention.queries(y), images, attention.keys_values(y), dropout)
    attended = attention.output(heads.transpose(1, 2).flatten(2))
    return block.rest(x, attended) if asked is None else block.rest(x[asked], attended[asked])


class Transformer(nn.Module):
    """LN(x) in x's place, then blocks; no layer norm at the end."""

    def __init__(self, sizes: PclSizes, switches: PclSwitches, dropout: float, blocks: int):
        super().__init__()
        self.norm = norm(sizes.width, switches)
        self.blocks = nn.ModuleList(
            TransformerBlock(
                *(sizes.width, sizes.heads, dropout, nn.ReLU()),
                inner_dropout=True,
                pre_norm=True,
                norm=partial(norm, switches=switches),
            )
            for _ in range(blocks)
        )

    def each(self) -> list[TransformerBlock]:
        """The blocks, by their type."""
        return all_of(TransformerBlock, self.blocks)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """(B, T, D) -> the same; `real`, (B, T): only tokens where it is true are seen."""
        x = self.norm(x)
        for block in self.each():
            x, _ = attend_images(block, x, real)
        return x


class Network(nn.Module):
    """Cells and words as tokens, and the transformers over them.

    [MASK] and [CLS] are rows of the word table behind the vocabulary's, then [IMG1] and [IMG2] where they are
    vectors of their own. Predicted are the vocabulary's words; or [MASK] and [CLS], too, as the variant says.
    """

    positions: Tensor  # of words
    places: Tensor  # of cells, (N, D)

    def __init__(self, sizes: PclSizes, switches: PclSwitches, dropout: float):
        super().__init__()
        D, V, (rows, columns) = sizes.width, sizes.vocabulary, sizes.cells
        self.mask, self.cls, self.count, self.cells = V, V + 1, rows * columns, sizes.cells
        self.image_marks = (V + 2, V + 3) if switches.image_tokens == "own" else (self.cls, self.cls)
        self.project = nn.Linear(sizes.channels, D)  # W: MVCL's head has it, too
        self.words = nn.Embedding(max(self.cls, *self.image_marks) + 1, D)
        self.types = nn.Embedding(WORD_TYPE + 1, D)
        longest = max(self.count, sizes.longest)
        self.register_buffer("positions", positions(longest, D, switches), persistent=False)
        # saved where they are ours: what was trained with others is then refused, not read wrongly
        ours = switches.first_weights == "counterpart"
        self.register_buffer("places", self.positions[: self.count].clone(), persistent=ours)
        self.norm, self.dropout = norm(D, switches, EMBEDDING_EPSILON), nn.Dropout(dropout)
        self.compares = switches.difference_encoder
        if self.compares:
            self.single = Transformer(sizes, switches, dropout, sizes.single)
            self.pair = Transformer(sizes, switches, dropout, sizes.pair)
        self.cross = Transformer(sizes, switches, dropout, sizes.cross)
        self.output = nn.Linear(D, V if switches.softmax == "vocabulary" else self.cls + 1)
        if switches.first_weights != "torch":
            self.balance()
        if switches.first_weights == "counterpart":
            self.compare()

    @torch.no_grad()
    def balance(self) -> None:
        """Words become N(0, 1) after their scaling, types N(0, TYPE_DEVIATION); W grows by GAIN."""
        self.words.weight /= math.sqrt(self.words.embedding_dim)
        self.types.weight *= TYPE_DEVIATION
        self.project.weight *= GAIN

    @torch.no_grad()
    def compare(self) -> None:
        """The first block on both images looks at the same cell of the other one; types tell them apart.

        Marks have no place: had they a side, each cell would look at the other image's mark instead. The
        block before adds little of its own. Then the difference, which is in half of the directions, grows,
        and words look at it.
        """
        self.places, side, room = kept_apart(self.cells, self.words.embedding_dim)
        show_beside(self.project, room)
        self.types.weight[2], self.types.weight[4] = side, -side
        for block in self.single.each() if self.compares else ():
            calm_block(block)
        first = (self.pair if self.compares else self.cross).each()[0]
        half = look_across(first.attention, self.places, side)  # (D, D/2)
        if self.compares:
            differs = raise_within(half, room, first.fed)
            look_at(self.cross.each()[0].attention, differs, side)

    def mark(self, row: int, kind: int) -> Tensor:
        """[IMG1], [IMG2] or [CLS], (1, 1, D): a row of the word table, unscaled, and its type."""
        return (self.words.weight[row] + self.types.weight[kind])[None, None]

    def image(self, cells: Tensor, side: int) -> Tensor:
        """Cells (B, N, C) of image 1 or 2 (side 0, 1) -> its mark and cells as tokens, (B, N+1, D)."""
        mark = self.mark(self.image_marks[side], 1 + 2 * side).expand(len(cells), -1, -1)
        shown = self.project(cells).sigmoid() + self.types.weight[2 + 2 * side] + self.places
        return self.dropout(self.norm(torch.cat([mark, shown], 1)))

    def text(self, tokens: Tensor, first: int = 0, cls: bool = False) -> Tensor:
        """Tokens (B, L) at positions first, first + 1, ... -> (B, L, D); (B, 1+L, D) with [CLS] first."""
        scaled = math.sqrt(self.words.embedding_dim) * self.words(tokens)
        x = scaled + self.types.weight[WORD_TYPE] + self.positions[first : first + tokens.shape[1]]
        if cls:
            x = torch.cat([self.mark(self.cls, CLS_TYPE).expand(len(x), -1, -1), x], 1)
        return self.dropout(self.norm(x))

    def singles(self, before: Tensor, after: Tensor) -> Tensor:
        """Each image's tokens by themselves, (2B, N+1, D): the before images', then the after images'."""
        both = torch.cat([self.image(before, 0), self.image(after, 1)])
        return self.single(both) if self.compares else both

    def paired(self, singles: Tensor) -> Tensor:
        """What `singles` gives -> V~, (B, M, D)."""
        x = torch.cat(singles.chunk(2), 1)
        return self.pair(x) if self.compares else x

    def forward(self, before: Tensor, after: Tensor) -> Difference:
        """Cells of both images, (B, N, C) each; the memory is V~, (B, M, D)."""
        return Difference(self.paired(self.singles(before, after)), before, after)

    def alone(self, cells: Tensor) -> Tensor:
        """V~ of single images, (B, N+2, D): [IMG1] and cells; [IMG2] joins before the pair transformer."""
        one = self.image(cells, 0)
        mark = self.dropout(self.norm(self.mark(self.image_marks[1], 3))).expand(len(cells), -1, -1)
        if not self.compares:
            return torch.cat([one, mark], 1)
        return self.pair(torch.cat([self.single(one), mark], 1))

    def joint(self, memory: Tensor, tokens: Tensor, padding: bool) -> tuple[Tensor, Tensor]:
        """Pre-training's: V~ (B, M, D) and tokens (B, L) see each other -> V^, (B, M, D), T^, (B, 1+L, D).

        T^ begins with [CLS]. `padding`: whether NULL is seen, too.
        """
        x = torch.cat([memory, self.text(tokens, cls=True)], 1)
        ahead = x.shape[1] - tokens.shape[1]
        real = None if padding else F.pad(tokens != NULL, (ahead, 0), value=True)
        images, words = self.cross(x, real).split([memory.shape[1], 1 + tokens.shape[1]], 1)
        return images, words

    def over_images(self, memory: Tensor) -> tuple[list[KeysValues], Tensor]:
        """Captioning's image tokens, which see no text: each cross-modal block's keys and values, and marks.

        The marks are V^'s [IMG1] and [IMG2], (B, 2, D): of the last block nothing else is read.
        """
        x, kept, blocks = self.cross.norm(memory), [], self.cross.each()
        for block in blocks:
            x, keys_values = attend_images(block, x, every=x.shape[1] // 2 if block is blocks[-1] else 1)
            kept.append(keys_values)
        return kept, x

    def over_words(self, tokens: Tensor, kept: list[KeysValues], asked: Tensor | None = None) -> Tensor:
        """Captioning's words, (R*B, L), R captions of a pair one after another -> T^, (R*B, L, D).

        `asked`, (R*B, L): T^ of n words alone, where it is true, (n, D); the last block works for no others.
        """
        x, blocks = self.cross.norm(self.text(tokens)), self.cross.each()
        for block, images in zip(blocks, kept, strict=True):
            x = attend_words(block, x, images, asked if block is blocks[-1] else None)
        return x
