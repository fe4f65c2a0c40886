"""CARD: context-aware difference distilling for multi-change captioning (Tu et al., ACL 2024).

The model estimates the content that both images share, for the whole image and for each cell. It subtracts
the shared content; the rest is the difference.
B: pairs of the batch; b: pairs of this process; N: cells of an image; D: width; h: heads; d = D/h; e: word
width; L: words. Symbols such as g, c, s and delta are those of the equations in docs/methods.md, "CARD".
"""

from dataclasses import dataclass, fields
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import TransformerBlock
from models.common.captioner import NEVER, Aligned, Captioner, Regulariser, initialise_xavier, oppose_halves
from models.common.decoder import CaptionDecoder
from models.common.decoder_protocol import Words
from models.common.distributed_batch import join_processes, processes
from models.common.entry import PLAIN, Entry
from models.common.grid_embedding import GridEmbedding, TransformerSizes
from models.common.packing import NULL
from models.initialisation.counterpart_weights import CONTENT_SCALE, copy_counterpart, grid_places, scale_down
from models.kernels.matching import contrast

UNKNOWN = 1  # <UNK>
BOUNDS = (0.001, 0.5)  # range of the learned temperature
# constants of the initialisation `counterpart`; a cell's counterpart is the same cell of the other image
SHARPNESS = 8.0  # attention logit of the counterpart; the logits of other cells are near 0
COUNTERPART_GAIN = 4.0  # factor of the counterpart in s; the factor of the cell itself is 1
COMMON_BIAS = 4.0  # bias of k, so that the ReLU of k changes nothing; the norm of s removes the bias
DIFFERENCE_GAIN = 8.0  # factor of x - s, because the difference of two images is smaller than the images


@dataclass(frozen=True)
class CardSwitches:
    """Switches of CARD. A default is the paper's value, or our choice if the paper gives none.

    docs/methods.md, "CARD", lists them. The comment above a switch describes its values, separated by |.
    """

    # local common features: each image attends to the other's k | the after image attends to the before
    # image's result
    common_exchange: Literal["parallel", "sequential"] = "parallel"
    # embedding of <NULL>, which is not trained: zero | random
    null_row: Literal["zero", "drawn"] = "zero"
    # decoding never writes <NULL>, <UNK> and <START> | never writes <UNK>
    barred: Literal["marks", "unknown"] = "marks"
    # ablation, loss terms besides the caption's: L_con and L_ind | only L_con | only L_ind | none
    terms: Literal["both", "consistency", "independence", "none"] = "both"
    # initial weights: the authors' program's | the same, but changed so that the memory is the difference of
    # each cell and its counterpart (`compare`; not published, for training on few pairs)
    first_weights: Literal["program", "counterpart"] = "program"


# value of the switch `terms` -> loss terms that the model lacks
LEFT_OUT = {"both": (), "consistency": ("ind",), "independence": ("con",), "none": ("con", "ind")}
RELEASED = CardSwitches(common_exchange="sequential", null_row="drawn", barred="unknown")


class Joined(nn.Module):
    """Layer ReLU(drop(W [x ; y] + b)), applied to each cell; W maps 2D channels to D channels.

    `y` are the cells, (B, N, D). `x` is (B, N, D), or (B, 1, D) for a vector that all cells share.
    """

    def __init__(self, sizes: TransformerSizes, dropout: float):
        super().__init__()
        self.map, self.dropout = nn.Linear(2 * sizes.width, sizes.width), nn.Dropout(dropout)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(self.dropout(self.map(torch.cat([x.expand_as(y), y], -1))))


@dataclass
class Distilled(Aligned):
    """Difference of the two images of a pair, with four vectors, (B, D) each.

    `before_common` is computed from the before image, and `after_common` from the after image. Each
    estimates the content that both images share. `before_own` estimates the content that only the
    before image has, and `after_own` the content that only the after image has.
    """

    before_common: Tensor  # c_bef
    after_common: Tensor
    before_own: Tensor  # delta_bef
    after_own: Tensor


class Distilling(nn.Module):
    """CARD's encoder of the difference: it subtracts from each image the content that both images share."""

    def __init__(self, sizes: TransformerSizes, switches: CardSwitches, dropout: float):
        super().__init__()
        D, (H, W) = sizes.width, sizes.grid
        self.sequential = switches.common_exchange == "sequential"
        self.before_token, self.after_token = (nn.Parameter(torch.empty(1, 1, D)) for _ in range(2))  # CLS
        self.positions = nn.Parameter(torch.empty(1 + H * W, D))  # Pi; the first row is for CLS
        # post-LN, without a feed-forward
        self.own_block, self.common_block = (TransformerBlock(D, sizes.heads, dropout) for _ in range(2))
        self.common = nn.Linear(D, D)  # W_c
        self.before_own, self.after_own = nn.Linear(D, D), nn.Linear(D, D)  # W_b, W_a
        self.local_common = Joined(sizes, dropout)  # W_k
        self.before_local, self.after_local = Joined(sizes, dropout), Joined(sizes, dropout)  # W_1, W_2
        self.fuse = Joined(sizes, dropout)  # W_f

    def forward(self, before: Tensor, after: Tensor) -> Distilled:
        """Return the difference of the cells of two images, (B, N, D) each; `memory` is (B, N, D)."""
        b_context, b = self.context(self.before_token, before)  # g, (B, 1, D), and x, (B, N, D)
        a_context, a = self.context(self.after_token, after)
        b_common, a_common = self.common(b_context), self.common(a_context)  # c
        b_own, a_own = self.before_own(b_context), self.after_own(a_context)  # delta
        b_shared, a_shared, queries_keys = self.shared(
            self.local_common(b_common, b), self.local_common(a_common, a)
        )
        b_local = self.before_local(b_own, b - b_shared)  # D_bef, (B, N, D)
        a_local = self.after_local(a_own, a - a_shared)
        contents = (x[:, 0] for x in (b_common, a_common, b_own, a_own))
        return Distilled(self.fuse(b_local, a_local), before, after, *queries_keys, *contents)

    def context(self, token: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
        """Return an image's context, the output at its class token, (B, 1, D), and its cells, (B, N, D)."""
        x = torch.cat([token.expand(len(cells), 1, -1), cells], 1) + self.positions  # U, (B, N + 1, D)
        x = self.own_block(x)
        return x[:, :1], x[:, 1:]

    def shared(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Return what each image shares with the other, (B, N, D) each, and the after image's attention."""
        block, attention = self.common_block, self.common_block.attention
        b = block.rest(before, attention(before, after))
        queries = attention.queries(after)  # (B, h, N, d)
        keys, values = attention.keys_values(b if self.sequential else before)
        return b, block.rest(after, attention.attend(queries, keys, values)), (queries, keys)


class CardConsistency(Regulariser):
    """Loss L_con: a contrastive loss on the vectors `before_common` and `after_common` of Distilled."""

    def __init__(self, temperature: float):
        super().__init__()
        low, high = BOUNDS
        if not low <= temperature <= high:
            raise ValueError(f"temperature must be from {low} to {high}, not {temperature}")
        self.temperature = nn.Parameter(torch.tensor(temperature))  # tau, learned

    def forward(self, pair: Distilled, words: Words) -> Tensor:
        with torch.autocast(pair.memory.device.type, enabled=False):  # in float32 at least
            b, a = (unit(x) for x in (pair.before_common, pair.after_common))  # (b, D)
            to_after = contrast(b @ join_processes(a).T, self.temperature)  # from rows of S, (b, B)
            to_before = contrast(a @ join_processes(b).T, self.temperature)  # from rows of its transpose
        return (to_after + to_before) / 2

    @torch.no_grad()
    def constrain(self) -> None:
        self.temperature.clamp_(*BOUNDS)


class Independence(Regulariser):
    """Loss L_ind: the Hilbert-Schmidt independence criterion of `before_own` and `after_own`.

    These are the vectors of what only the before image has, and of what only the after image has.
    """

    def forward(self, pair: Distilled, words: Words) -> Tensor:
        with torch.autocast(pair.memory.device.type, enabled=False):
            K, L = (kernel(join_processes(unit(x))) for x in (pair.before_own, pair.after_own))  # (B, B)
        B = len(K)
        if B == 1:  # the criterion is 0 / 0
            return 0 * K.sum()
        J = torch.eye(B, dtype=K.dtype, device=K.device) - 1 / B
        # each process computes the loss of the whole batch, and returns its share
        return (L @ J @ K @ J).trace() / (B - 1) ** 2 / processes()


def unit(x: Tensor) -> Tensor:
    return F.normalize(x.to(torch.promote_types(x.dtype, torch.float32)), dim=-1)


def kernel(x: Tensor) -> Tensor:
    return torch.exp(-(x[:, None] - x[None]).square().sum(-1))


def card(sizes: TransformerSizes, switches: CardSwitches, *, dropout: float, temperature: float) -> Captioner:
    """Build CARD. `temperature` is the initial value of the learned temperature in the loss L_con."""
    terms: dict[str, Regulariser] = {"con": CardConsistency(temperature), "ind": Independence()}
    for name in LEFT_OUT[switches.terms]:
        del terms[name]
    difference = Distilling(sizes, switches, dropout)
    decoder = CaptionDecoder(sizes, dropout)
    decoder.norm = nn.Identity()  # there is no layer norm after the word embedding
    cells = GridEmbedding(sizes.channels, sizes.width)
    model = Captioner(sizes, difference, terms, dropout, encoding=cells, decoder=decoder)
    initialise_xavier(model, joint=True)
    if switches.null_row == "drawn":  # Xavier's uniform, like the other rows
        table = decoder.embedding.weight
        bound = (6 / sum(table.shape)) ** 0.5
        with torch.no_grad():
            table[NULL].uniform_(-bound, bound)
    if switches.first_weights == "counterpart":
        compare(cells.project, difference, sizes)
    model.never = NEVER if switches.barred == "marks" else (UNKNOWN,)
    return model


@torch.no_grad()
def compare(project: nn.Conv2d, difference: Distilling, sizes: TransformerSizes) -> None:
    """Initialise the memory to ReLU(W (x_bef - x_aft)) at each cell, for some W (not published).

    1. The shared content s_bef makes x_bef - s_bef = 4/5 (x_bef - x_aft), and x_aft - s_aft its negative.
    2. W_1 and W_2 compute D_bef = ReLU(u) and D_aft = ReLU(-u), where u is a linear map of x_bef - x_aft.
    3. W_f computes the memory from D_bef - D_aft = u.
    """
    D = sizes.width
    places = grid_places(*sizes.grid, D)
    places -= places.mean(1, keepdim=True)  # makes places orthogonal to the bias of k
    difference.positions[1:] = places
    project.weight *= CONTENT_SCALE
    scale_down(difference.own_block.attention.output, difference.common, difference.before_own)
    k = difference.local_common.map
    k.weight.copy_(torch.cat([torch.zeros(D, D), torch.eye(D)], 1))
    k.bias.fill_(COMMON_BIAS)
    places = F.layer_norm(places, [D])
    copy_counterpart(difference.common_block.attention, places, SHARPNESS, COUNTERPART_GAIN)
    difference.before_local.map.weight[:, D:] = DIFFERENCE_GAIN * nn.init.orthogonal_(torch.empty(D, D))
    difference.after_local.load_state_dict(difference.before_local.state_dict())
    difference.after_own.load_state_dict(difference.before_own.state_dict())
    oppose_halves(difference.fuse.map.weight)


SWITCHES = frozenset(field.name for field in fields(CardSwitches))
CARD = Entry(
    card,
    RELEASED,
    SWITCHES,
    TransformerSizes,
    "card",
    layer={
        "settings": {"temperature": 0.07},
        "loss": {"lambda_con": 0.001, "lambda_ind": 0.001},
        "train": PLAIN,
    },
    left_out=lambda switches, settings: LEFT_OUT[switches.terms],
)
