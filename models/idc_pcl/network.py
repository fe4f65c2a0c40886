"""IDC-PCL's network (Yao et al., AAAI 2022): embeddings and three transformers, trained in all phases.

The transformer `single` sees one image. The transformer `pair` sees both images; its output is V~.
The transformer `cross` sees V~ and the words. Equations: docs/methods.md, "IDC-PCL".
B: pairs; C: feature channels; N: cells of an image; D: width; h: heads; d = D/h; k: captions per
pair; L: words that get an output; W: words that are attended to (the last L of them get an output);
V: size of the vocabulary; T: tokens of any kind; M = 2(N + 1): image tokens of a pair, which are
[IMG1], cells of image 1, [IMG2], cells of image 2.
"""

import math
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import TransformerBlock
from models.common.captioner import Difference
from models.common.packing import up_to_last
from models.common.trainable import Group
from models.idc_pcl.switches import PclSizes, PclSwitches
from models.initialisation.counterpart_weights import attend_to_changes, scale_block, subtract_counterpart
from models.initialisation.idc_pcl import amplify_difference, clear_place_channels, separate_places

EPSILON, EMBEDDING_EPSILON = 1e-6, 1e-12  # of layer norms: in blocks; in embeddings and MVCL's head
KeysValues = tuple[Tensor, Tensor]
CLS_TYPE, WORD_TYPE = 5, 6  # token types; 0: unused, 1: [IMG1], 2: its cells, 3: [IMG2], 4: its cells
GAIN, TYPE_DEVIATION = 4.0, 0.1  # for `Network.balance`


class DeviationNorm(nn.Module):
    """Layer norm of the released program: a (x - mean) / (s + eps) + b, with the unbiased deviation s."""

    def __init__(self, width: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return self.weight * centred / (x.std(-1, keepdim=True) + self.epsilon) + self.bias


def rates(coef: float) -> tuple[Group, ...]:
    """Return the parameter groups; with a full rate, the sigmoid after the cell embedding would saturate."""
    return Group(r"^difference\.(project|single|pair)\.", coef, True), Group("", 1.0, True)


def norm(width: int, switches: PclSwitches, epsilon: float = EPSILON) -> nn.Module:
    """Build the layer norm that the switch `layer_norm` names."""
    if switches.layer_norm == "deviation":
        return DeviationNorm(width, epsilon)
    return nn.LayerNorm(width, epsilon)


def positions(length: int, width: int, switches: PclSwitches) -> Tensor:
    """Return fixed position embeddings, (length, width), float32; the switch `positions` sets the formula."""
    channel = torch.arange(width)
    step = channel if switches.positions == "doubled" else channel // 2
    # in float64: float32 has an error of 5e-6 at position 80
    angle = torch.arange(length)[:, None] / 10_000 ** (2 * step.double() / width)
    return torch.where(channel % 2 == 0, angle.sin(), angle.cos()).float()


def attend_images(
    block: TransformerBlock, x: Tensor, real: Tensor | None = None, every: int = 1
) -> tuple[Tensor, KeysValues]:
    """Apply a block to tokens, (B, T, D); return each `every`-th output, all keys and values (B, h, T, d)."""
    y, attention = block.norm_1(x), block.attention
    k, v = attention.keys_values(y)
    q = attention.queries(y[:, ::every])
    return block.rest(x[:, ::every], attention.attend(q, k, v, real=real)), (k, v)


def attend_words(
    block: TransformerBlock, x: Tensor, images: KeysValues, selected: Tensor | None = None
) -> Tensor:
    """Apply a block to captions' words, (kB, L, D); with `selected`, (kB, L), return only these n, (n, D)."""
    y, attention = block.norm_1(x), block.attention
    dropout = attention.dropout if block.training else 0.0
    heads = word_attention(attention.queries(y), images, attention.keys_values(y), dropout)
    attended = attention.output(heads.transpose(1, 2).flatten(2))
    return block.rest(x, attended) if selected is None else block.rest(x[selected], attended[selected])


def word_attention(q: Tensor, images: KeysValues, words: KeysValues, dropout: float = 0.0) -> Tensor:
    """Let words attend to image tokens and to words that are not later: q (kB, h, L, d) -> (kB, h, L, d).

    Keys and values are (B, h, M, d) for `images` and (kB, h, W, d) for `words`.
    """
    (keys, values), (word_keys, word_values) = images, words
    (B, _, M, d), L, W = keys.shape, q.shape[2], word_keys.shape[2]
    q = q / math.sqrt(d)
    to_images = separate_captions(join_captions(q, B) @ keys.transpose(-2, -1), L)
    later = torch.ones(L, W, dtype=torch.bool, device=q.device).triu(W - L + 1)
    to_words = (q @ word_keys.transpose(-2, -1)).masked_fill(later, -math.inf)
    weights = F.dropout(torch.cat([to_images, to_words], -1).softmax(-1), dropout)
    return separate_captions(join_captions(weights[..., :M], B) @ values, L) + weights[..., M:] @ word_values


def join_captions(x: Tensor, pairs: int) -> Tensor:
    """Join the k captions of each pair into a single sequence: (kB, h, L, n) -> (B, h, kL, n)."""
    return x.unflatten(0, (pairs, -1)).transpose(1, 2).flatten(2, 3)


def separate_captions(x: Tensor, queries: int) -> Tensor:
    """Undo `join_captions`: (B, h, k * queries, n) -> (kB, h, queries, n)."""
    return x.unflatten(2, (-1, queries)).transpose(1, 2).flatten(0, 1)


class Transformer(nn.Module):
    """Transformer with a layer norm before its blocks, and none after them."""

    def __init__(self, sizes: PclSizes, switches: PclSwitches, dropout: float, blocks: int):
        super().__init__()
        self.norm = norm(sizes.width, switches)
        self.blocks: Any = nn.ModuleList(
            TransformerBlock(
                *(sizes.width, sizes.heads, dropout, nn.ReLU()),
                inner_dropout=True,
                pre_norm=True,
                norm=partial(norm, switches=switches),
            )
            for _ in range(blocks)
        )

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Apply the transformer to tokens x, (B, T, D); `real`, (B, T), is true for tokens that are keys."""
        x = self.norm(x)
        for block in self.blocks:
            x, _ = attend_images(block, x, real)
        return x


class Network(nn.Module):
    """Embeddings of cells and words, three transformers, and the output layer of words.

    The rows of the word embedding are the V words of the vocabulary, [MASK] and [CLS]. If [IMG1] and [IMG2]
    have embeddings of their own, two more rows follow.
    """

    def __init__(self, sizes: PclSizes, switches: PclSwitches, dropout: float):
        super().__init__()
        D, V, (rows, columns) = sizes.width, sizes.vocabulary, sizes.cells
        self.mask, self.cls, self.count, self.cells = V, V + 1, rows * columns, sizes.cells
        self.image_marks = (V + 2, V + 3) if switches.image_tokens == "own" else (self.cls, self.cls)
        self.project = nn.Linear(sizes.channels, D)  # W, the map of cells; MVCL's head also uses it
        self.words = nn.Embedding(max(self.cls, *self.image_marks) + 1, D)
        self.types = nn.Embedding(WORD_TYPE + 1, D)
        embeddings = positions(max(self.count, sizes.longest), D, switches)
        self.positions = nn.Buffer(embeddings, persistent=False)  # of words
        # of cells, (N, D); `counterpart` saves them, so that weights with other positions are refused
        counterpart = switches.first_weights == "counterpart"
        self.places = nn.Buffer(embeddings[: self.count].clone(), persistent=counterpart)
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
        """Scale the embeddings of words to N(0, 1), of types to TYPE_DEVIATION, and of cells by GAIN."""
        self.words.weight /= math.sqrt(self.words.embedding_dim)
        self.types.weight *= TYPE_DEVIATION
        self.project.weight *= GAIN

    @torch.no_grad()
    def compare(self) -> None:
        """Initialise the first block that sees both images to subtract from each cell its counterpart.

        The counterpart is the cell at the same place in the other image. A vector that is added to the cells
        of image 1, and subtracted from those of image 2, tells the images apart.

        `single` (one image) changes cells little, and the first block of `pair` (both images) amplifies the
        difference; both are optional. Words then attend to changed cells in the first block of `cross`.
        """
        places, side, room = separate_places(self.cells, self.words.embedding_dim)
        self.places.copy_(places)
        clear_place_channels(self.project, room)
        self.types.weight[2], self.types.weight[4] = side, -side
        for block in self.single.blocks if self.compares else ():
            scale_block(block)
        first = (self.pair if self.compares else self.cross).blocks[0]
        half = subtract_counterpart(first.attention, self.places, side)  # (D, D/2)
        if self.compares:
            size_direction = amplify_difference(half, room, first.feed_forward_layer)
            attend_to_changes(self.cross.blocks[0].attention, size_direction, side)

    def mark(self, row: int, kind: int) -> Tensor:
        return (self.words.weight[row] + self.types.weight[kind])[None, None]

    def image(self, cells: Tensor, side: int) -> Tensor:
        """Embed [IMG1] or [IMG2] (side 0 or 1) and an image's cells: (B, N, C) -> (B, N+1, D)."""
        mark = self.mark(self.image_marks[side], 1 + 2 * side).expand(len(cells), -1, -1)
        embedded = self.project(cells).sigmoid() + self.types.weight[2 + 2 * side] + self.places
        return self.dropout(self.norm(torch.cat([mark, embedded], 1)))

    def text(self, tokens: Tensor, first: int = 0, cls: bool = False) -> Tensor:
        """Embed tokens, (B, L), at positions from `first` on: (B, L, D), or with [CLS] first (B, 1+L, D)."""
        scaled = math.sqrt(self.words.embedding_dim) * self.words(tokens)
        x = scaled + self.types.weight[WORD_TYPE] + self.positions[first : first + tokens.shape[1]]
        if cls:
            x = torch.cat([self.mark(self.cls, CLS_TYPE).expand(len(x), -1, -1), x], 1)
        return self.dropout(self.norm(x))

    def singles(self, before: Tensor, after: Tensor) -> Tensor:
        """Embed cells, (B, N, C) each; apply `single`, if any; return (2B, N+1, D), before images first."""
        both = torch.cat([self.image(before, 0), self.image(after, 1)])
        return self.single(both) if self.compares else both

    def paired(self, singles: Tensor) -> Tensor:
        """Apply `pair` to the tokens of all before, then all after images: (2B, N+1, D) -> (B, 2(N+1), D)."""
        x = torch.cat(singles.chunk(2), 1)
        return self.pair(x) if self.compares else x

    def forward(self, before: Tensor, after: Tensor) -> Difference:
        return Difference(self.paired(self.singles(before, after)), before, after)

    def alone(self, cells: Tensor) -> Tensor:
        """Return the tokens of images without a second image, (B, N+2, D): [IMG1], N cells, [IMG2]."""
        image = self.image(cells, 0)
        mark = self.dropout(self.norm(self.mark(self.image_marks[1], 3))).expand(len(cells), -1, -1)
        if not self.compares:
            return torch.cat([image, mark], 1)
        return self.pair(torch.cat([self.single(image), mark], 1))

    def joint(self, memory: Tensor, tokens: Tensor, padding: bool) -> tuple[Tensor, Tensor]:
        """Apply `cross` to image tokens, (B, M, D), and words, (B, L): V^ (B, M, D), T^ (B, 1+L, D)."""
        x = torch.cat([memory, self.text(tokens, cls=True)], 1)
        before_words = x.shape[1] - tokens.shape[1]
        real = None if padding else F.pad(up_to_last(tokens), (before_words, 0), value=True)
        images, words = self.cross(x, real).split([memory.shape[1], 1 + tokens.shape[1]], 1)
        return images, words

    def over_images(self, memory: Tensor) -> tuple[list[KeysValues], Tensor]:
        """Apply `cross` to the image tokens, (B, M, D), before any words are processed.

        Returns keys and values per block, for `over_words`, and outputs at [IMG1] and [IMG2], (B, 2, D).
        """
        x, images, blocks = self.cross.norm(memory), [], self.cross.blocks
        for block in blocks:
            x, keys_values = attend_images(block, x, every=x.shape[1] // 2 if block is blocks[-1] else 1)
            images.append(keys_values)
        return images, x

    def over_words(self, tokens: Tensor, images: list[KeysValues], selected: Tensor | None = None) -> Tensor:
        """Apply `cross` to words, (k*B, L), with `over_images`: T^, (k*B, L, D), or only the n selected."""
        x, blocks = self.cross.norm(self.text(tokens)), self.cross.blocks
        for block, keys_values in zip(blocks, images, strict=True):
            x = attend_words(block, x, keys_values, selected if block is blocks[-1] else None)
        return x
