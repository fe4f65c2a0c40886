"""CARD: context-aware difference distilling for multi-change captioning (Tu et al., ACL 2024).

What both images share, as a whole and cell by cell, is taken away; what is left of each is the difference.
B pairs, N cells an image, D width, h heads, L words. Equations: docs/methods.md, "CARD".
"""

from dataclasses import dataclass, fields
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention
from models.common.captioner import NEVER, Aligned, Captioner, Difference, Regulariser, initialise_xavier
from models.common.decoder import NULL, CaptionDecoder
from models.common.decoder_protocol import Words
from models.common.distributed_batch import everyone, processes
from models.common.entry import Entry
from models.common.grid_embedding import DataSizes
from models.initialisation.counterpart_weights import calm, grid_places, look_over
from models.kernels.matching import contrast

UNKNOWN = 1  # <UNK>
BOUNDS = (0.001, 0.5)  # of the learned temperature
# of counterpart first weights:
SHOWN = 0.12  # times W_x: with places longer than what cells show, a layer norm leaves how much they differ
SHARPNESS = 8.0  # logit of the same cell of the other image, where all others are near 0
NEAR = 4.0  # times what is seen there: s is that then, and a fifth of it the cell itself
LIFT = 4.0  # bias of k, which its ReLU lets pass as it is, and s's norm takes off again
LOUD = 8.0  # times x - s: two images differ by less than they show


@dataclass(frozen=True)
class CardSwitches:
    """The defaults are the paper's, or chosen where it is not known (docs/methods.md, "CARD")."""

    # locally common: both images read each other's k | after reads what before has become
    common_exchange: Literal["parallel", "sequential"] = "parallel"
    # the word table's row of <NULL>: zero | drawn like the rest; it is never trained
    null_row: Literal["zero", "drawn"] = "zero"
    # decoding never writes <NULL>, <UNK> and <START> | <UNK> alone
    barred: Literal["marks", "unknown"] = "marks"
    # ablation: L_con and L_ind | one of them | neither
    terms: Literal["both", "consistency", "independence", "none"] = "both"
    # the program's | those, but the memory begins as the difference of counterparts; ours, for few pairs
    first_weights: Literal["program", "counterpart"] = "program"


RELEASED = CardSwitches(common_exchange="sequential", null_row="drawn", barred="unknown")


@dataclass(frozen=True)
class CardSizes(DataSizes):
    """Widths and depths."""

    width: int  # D
    heads: int
    decoder_layers: int
    word_width: int  # e

    def __post_init__(self) -> None:
        """Raises ValueError where they make no model."""
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads ({self.heads})")
        if self.word_width % 2:
            raise ValueError(f"word_width {self.word_width} is not even")


class CellMap(nn.Module):
    """W_x, a 1x1 convolution: feature grids B x C x H x W -> cells B x N x D, row by row."""

    def __init__(self, sizes: CardSizes):
        super().__init__()
        self.project = nn.Conv2d(sizes.channels, sizes.width, 1)

    def forward(self, features: Tensor) -> Tensor:
        cells = features.flatten(2).transpose(1, 2)  # B x N x C
        return F.linear(cells, self.project.weight.flatten(1), self.project.bias)


class Block(nn.Module):
    """LN(x + drop(MHA(x, memory))), without a feed-forward."""

    def __init__(self, sizes: CardSizes, dropout: float):
        super().__init__()
        self.attention = MultiHeadAttention(sizes.width, sizes.heads, dropout)
        self.norm, self.dropout = nn.LayerNorm(sizes.width), nn.Dropout(dropout)

    def forward(self, x: Tensor, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """B x T x D and its queries, B x h x T x d, over keys and values of the same shape."""
        return self.norm(x + self.dropout(self.attention.attend(queries, keys, values)))


class Joined(nn.Module):
    """ReLU(drop(W [x ; y] + b)), 2D -> D, of each cell; x may be one vector for all cells, B x 1 x D."""

    def __init__(self, sizes: CardSizes, dropout: float):
        super().__init__()
        self.map, self.dropout = nn.Linear(2 * sizes.width, sizes.width), nn.Dropout(dropout)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(self.dropout(self.map(torch.cat([x.expand_as(y), y], -1))))


@dataclass
class Distilled(Aligned):
    """The images as a whole, B x D each: what they have in common, and what is their own."""

    before_common: Tensor  # c_bef
    after_common: Tensor
    before_own: Tensor  # delta_bef
    after_own: Tensor


class Distilling(nn.Module):
    """CARD's encoder: context, then what is locally common, then what is locally different."""

    def __init__(self, sizes: CardSizes, switches: CardSwitches, dropout: float):
        super().__init__()
        D, (H, W) = sizes.width, sizes.grid
        self.sequential = switches.common_exchange == "sequential"
        self.before_token, self.after_token = (nn.Parameter(torch.empty(1, 1, D)) for _ in range(2))  # CLS
        self.positions = nn.Parameter(torch.empty(1 + H * W, D))  # Pi, the first row at CLS
        self.own_block, self.common_block = Block(sizes, dropout), Block(sizes, dropout)
        self.common = nn.Linear(D, D)  # W_c
        self.before_own, self.after_own = nn.Linear(D, D), nn.Linear(D, D)  # W_b, W_a
        self.local_common = Joined(sizes, dropout)  # W_k
        self.before_local, self.after_local = Joined(sizes, dropout), Joined(sizes, dropout)  # W_1, W_2
        self.fuse = Joined(sizes, dropout)  # W_f

    def forward(self, before: Tensor, after: Tensor) -> Distilled:
        """Cells of both images, twice B x N x D; the memory has the same shape, and is not negative."""
        b_context, b = self.context(self.before_token, before)  # g, B x 1 x D, and x, B x N x D
        a_context, a = self.context(self.after_token, after)
        b_common, a_common = self.common(b_context), self.common(a_context)  # c
        b_own, a_own = self.before_own(b_context), self.after_own(a_context)  # delta
        b_shared, a_shared, looked = self.shared(
            self.local_common(b_common, b), self.local_common(a_common, a)
        )
        b_local = self.before_local(b_own, b - b_shared)  # D_bef, B x N x D
        a_local = self.after_local(a_own, a - a_shared)
        wholes = (x[:, 0] for x in (b_common, a_common, b_own, a_own))
        return Distilled(self.fuse(b_local, a_local), before, after, *looked, *wholes)

    def context(self, token: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
        """CLS and the cells after the block on one image, the same block for both."""
        x = torch.cat([token.expand(len(cells), 1, -1), cells], 1) + self.positions  # U, B x (N + 1) x D
        attention = self.own_block.attention
        x = self.own_block(x, attention.queries(x), *attention.keys_values(x))
        return x[:, :1], x[:, 1:]

    def shared(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """s of both images, of k, twice B x N x D; and with what after looked at before: queries and keys."""
        block, attention = self.common_block, self.common_block.attention
        b = block(before, attention.queries(before), *attention.keys_values(after))
        queries, (keys, values) = (
            attention.queries(after),
            attention.keys_values(b if self.sequential else before),
        )
        return b, block(after, queries, keys, values), (queries, keys)


class Consistency(Regulariser):
    """L_con: a pair's common contexts are alike, and those of different pairs are not."""

    def __init__(self, temperature: float):
        super().__init__()
        low, high = BOUNDS
        if not low <= temperature <= high:
            raise ValueError(f"temperature must be from {low} to {high}, not {temperature}")
        self.temperature = nn.Parameter(torch.tensor(temperature))  # tau, learned

    def forward(self, pair: Difference, words: Words) -> Tensor:
        assert isinstance(pair, Distilled)
        with torch.autocast(pair.memory.device.type, enabled=False):  # in float32 at least
            b, a = (unit(x) for x in (pair.before_common, pair.after_common))  # b x D
            ways = b @ everyone(a).T, a @ everyone(b).T  # S's rows, and those of its transpose: b x B
            one, other = (contrast(way, self.temperature) for way in ways)
        return (one + other) / 2

    @torch.no_grad()
    def constrain(self) -> None:
        """tau is from 0.001 to 0.5."""
        self.temperature.clamp_(*BOUNDS)


class Independence(Regulariser):
    """L_ind: before's own contexts and after's vary independently, by the Hilbert-Schmidt criterion."""

    def forward(self, pair: Difference, words: Words) -> Tensor:
        assert isinstance(pair, Distilled)
        with torch.autocast(pair.memory.device.type, enabled=False):
            K, L = (kernel(everyone(unit(x))) for x in (pair.before_own, pair.after_own))  # B x B
        B = len(K)
        if B == 1:  # 0 / 0: nothing can vary
            return 0 * K.sum()
        J = torch.eye(B, dtype=K.dtype, device=K.device) - 1 / B
        # K is everyone's: each process has a share of its loss
        return (L @ J @ K @ J).trace() / (B - 1) ** 2 / processes()


def unit(x: Tensor) -> Tensor:
    """x / |x|, by rows, in float32 at least."""
    return F.normalize(x.to(torch.promote_types(x.dtype, torch.float32)), dim=-1)


def kernel(x: Tensor) -> Tensor:
    """exp(-|x_i - x_j|^2) of all rows, B x D -> B x B."""
    return torch.exp(-(x[:, None] - x[None]).square().sum(-1))


class BareDecoder(CaptionDecoder):
    """The papers' decoder without a layer norm of its words."""

    def __init__(self, sizes: CardSizes, dropout: float):
        depths = sizes.heads, sizes.decoder_layers
        super().__init__(sizes.vocabulary, sizes.longest, sizes.word_width, sizes.width, *depths, dropout)
        del self.norm

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Tokens B x L, standing at positions first, first + 1, ... -> B x L x D."""
        placed = self.embedding(tokens) + self.positions[first : first + tokens.shape[1]]  # B x L x e
        return self.dropout(self.project(placed))


def terms_of(switches: CardSwitches, temperature: float) -> dict[str, Regulariser]:
    """The loss terms beside the caption's, as the switch `terms` says."""
    every: dict[str, Regulariser] = {"con": Consistency(temperature), "ind": Independence()}
    kept = {"both": ("con", "ind"), "consistency": ("con",), "independence": ("ind",), "none": ()}
    return {name: every[name] for name in kept[switches.terms]}


def card(sizes: CardSizes, switches: CardSwitches, *, dropout: float, temperature: float) -> Captioner:
    """CARD; `temperature`: where the learned one begins."""
    difference, decoder = Distilling(sizes, switches, dropout), BareDecoder(sizes, dropout)
    cells, terms = CellMap(sizes), terms_of(switches, temperature)
    model = Captioner(sizes, difference, terms, dropout, encoding=cells, decoder=decoder)
    initialise_xavier(model, joint=True)
    if switches.null_row == "drawn":
        draw_null(decoder)
    if switches.first_weights == "counterpart":
        compare(cells.project, difference, sizes)
    model.never = NEVER if switches.barred == "marks" else (UNKNOWN,)
    return model


@torch.no_grad()
def draw_null(decoder: BareDecoder) -> None:
    """<NULL>'s row of the word table like the rest: Xavier's."""
    table = decoder.embedding.weight
    bound = (6 / sum(table.shape)) ** 0.5
    table[NULL].uniform_(-bound, bound)


@torch.no_grad()
def compare(project: nn.Conv2d, difference: Distilling, sizes: CardSizes) -> None:
    """x - s begins as four fifths of the difference of counterparts, and Z as ReLU(W (x_bef - x_aft)).

    W_f subtracts D_aft from D_bef, and ReLU(u) - ReLU(-u) is u. Not published: where training begins.
    """
    D = sizes.width
    places = grid_places(*sizes.grid, D)
    places -= places.mean(1, keepdim=True)  # at right angles to k's lift
    difference.positions[1:] = places
    project.weight *= SHOWN
    calm(difference.own_block.attention.output, difference.common, difference.before_own)
    k = difference.local_common.map
    k.weight.copy_(torch.cat([torch.zeros(D, D), torch.eye(D)], 1))
    k.bias.fill_(LIFT)
    look_over(difference.common_block.attention, F.layer_norm(places, [D]), SHARPNESS, NEAR)
    difference.before_local.map.weight[:, D:] = LOUD * nn.init.orthogonal_(torch.empty(D, D))
    difference.after_local.load_state_dict(difference.before_local.state_dict())
    difference.after_own.load_state_dict(difference.before_own.state_dict())
    of_before, of_after = difference.fuse.map.weight.chunk(2, 1)  # D x D each
    of_after.copy_(-of_before)


SWITCHES = frozenset(field.name for field in fields(CardSwitches))
CARD = Entry(card, RELEASED, SWITCHES, CardSizes, "card", loss={"con": 0.001, "ind": 0.001})
