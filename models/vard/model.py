"""VARD: viewpoint-adaptive representation disentanglement (Tu et al., TIP 2023).

An image's cells are related to each other with their places (PERL), what the other image shows of them is
taken away (URD), and the rest says where to look. The equations: docs/methods.md, "VARD".
B pairs, C feature channels, N cells an image, A width, h heads, d = A/h.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention
from models.common.captioner import Captioner, Difference
from models.common.decoder import CaptionDecoder
from models.common.dynamic_speaker import (
    LOSS,
    RELEASED,
    Attended,
    CellMap,
    DynamicCaptioner,
    DynamicSpeaker,
    SpeakerSizes,
    SpeakerSwitches,
    attended,
)
from models.common.entry import Entry
from models.common.grid_embedding import DataSizes, GridCells
from models.initialisation.counterpart_weights import CALM, SHOWN, calm

EPSILON = 1e-6  # of layer norms
# of differing first weights:
LOUD = 24.0  # D begins as ReLU(LOUD R (c_bef - c_aft))
USUAL = 6.0  # the bias before D's norm, beside which all else is short
STEEPNESS, LEAST = 4.0, 2.0  # a cell's weight is over one half where D is two deviations over the cells' mean
HEARD = 10.0  # times what the speaker hears: attended vectors, too, have little beside that bias
DIFFERENT = 1.5  # how long l_diff's numbers are to the speaker


@dataclass(frozen=True)
class VardSizes(SpeakerSizes):
    """The speaker's, and the detector's."""

    width: int  # A
    heads: int

    def __post_init__(self) -> None:
        """Raises ValueError where they make no model."""
        super().__post_init__()
        check_heads(self.width, self.heads)


@dataclass(frozen=True)
class TransformerSizes(DataSizes):
    """The detector's, and those of the decoder over its cells."""

    width: int  # A
    heads: int
    decoder_layers: int
    word_width: int

    def __post_init__(self) -> None:
        """Raises ValueError where they make no model."""
        check_heads(self.width, self.heads)
        if self.word_width % 2:
            raise ValueError(f"word_width {self.word_width} is not even")


def check_heads(width: int, heads: int) -> None:
    """Raises ValueError where heads do not share the width."""
    if width % heads:
        raise ValueError(f"width {width} is not a multiple of heads ({heads})")


class Perl(nn.Module):
    """P = LN(MHA(U, U, U) + DW(v) + U): cells of one image related to each other, with their places.

    No map behind the heads. DW is a 3 x 3 convolution of each channel of the values by itself, over the grid.
    """

    def __init__(self, grid: tuple[int, int], width: int, heads: int, dropout: float):
        super().__init__()
        self.grid = grid
        self.attention = MultiHeadAttention(width, heads, dropout, output=False)
        self.places = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.LayerNorm(width, EPSILON)

    def forward(self, cells: Tensor) -> Tensor:
        """U, (B, N, A) -> P."""
        attention, values = self.attention, self.attention.value(cells)
        q, k = attention.queries(cells), attention.split(attention.key(cells))
        related = attention.attend(q, k, attention.split(values))
        on_grid = values.transpose(1, 2).unflatten(-1, self.grid)  # (B, A, H, W)
        placed = self.places(on_grid).flatten(2).transpose(1, 2)
        return self.norm(related + placed + cells)

    def across(self, cells: Tensor, others: Tensor) -> Tensor:
        """MHA(P_o, P_other, P_other) without a weight of its own: (B, N, A) each -> (B, N, A)."""
        split = self.attention.split
        return self.attention.attend(split(cells), split(others), split(others))


class Disentangling(nn.Module):
    """D: of each cell, what neither image finds in the other one (URD)."""

    def __init__(self, grid: tuple[int, int], width: int, heads: int, dropout: float):
        super().__init__()
        self.perl = Perl(grid, width, heads, dropout)
        self.same = nn.LayerNorm(width, EPSILON)  # of both directions
        self.fuse, self.norm = nn.Linear(2 * width, width), nn.LayerNorm(width, EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """U of both images, (B, N, A) each -> P of both, and D."""
        b, a = self.perl(before), self.perl(after)
        b_same = self.same(self.perl.across(b, a) + b)
        a_same = self.same(self.perl.across(a, b) + a)
        changed = self.norm(self.fuse(torch.cat([b - b_same, a - a_same], -1)))
        return b, a, torch.relu(self.dropout(changed))


class Detector(nn.Module):
    """VARD's change detector: D says where to look in each image, as a subtraction does in DUDA."""

    def __init__(self, sizes: VardSizes, switches: SpeakerSwitches, dropout: float):
        super().__init__()
        A = sizes.width
        self.disentangle = Disentangling(sizes.grid, A, sizes.heads, dropout)
        self.map = CellMap(2 * A, sizes.maps, dropout)
        self.fuse, self.norm = nn.Linear(2 * A, A), nn.LayerNorm(A, EPSILON)
        self.dropout, self.pooled = nn.Dropout(dropout), switches.pooled

    def forward(self, before: Tensor, after: Tensor) -> Attended:
        """U of both images, (B, N, A) each."""
        b, a, D = self.disentangle(before, after)
        maps = [self.map(image, D) for image in (b, a)]  # (B, N) each
        l_bef, l_aft = (attended(own, image, self.pooled) for own, image in zip(maps, (b, a), strict=True))
        both = torch.cat([l_bef - l_aft, l_aft - l_bef], -1)  # (B, 2A)
        l_diff = torch.relu(self.dropout(self.norm(self.fuse(both))))
        return Attended(torch.stack([l_bef, l_diff, l_aft], 1), before, after, torch.stack(maps, 1))


class Changed(nn.Module):
    """D as the memory of a decoder that attends to cells."""

    def __init__(self, sizes: TransformerSizes, dropout: float):
        super().__init__()
        self.disentangle = Disentangling(sizes.grid, sizes.width, sizes.heads, dropout)

    def forward(self, before: Tensor, after: Tensor) -> Difference:
        """U of both images, (B, N, A) each."""
        return Difference(self.disentangle(before, after)[2], before, after)


@torch.no_grad()
def compare(encoding: nn.Sequential, parts: Disentangling) -> Tensor:
    """D begins as a map of c_bef - c_aft, no matter how short that is; returns what all P have in common, A.

    A norm's shift takes off what its input's bias makes of it. Not published: where training begins.
    """
    cells = encoding[1]
    assert isinstance(cells, nn.Linear)
    A = cells.out_features
    common, usual = F.layer_norm(torch.randn(2, A), [A])
    cells.weight *= SHOWN
    cells.bias.copy_(common)
    calm(parts.perl.attention.value, parts.perl.places)
    turned = nn.init.orthogonal_(torch.empty(A, A))
    parts.fuse.weight.copy_(LOUD * torch.cat([turned, -turned], 1))
    parts.fuse.bias.copy_(USUAL * usual)
    parts.norm.weight.fill_(USUAL)
    parts.norm.bias.copy_(-USUAL * usual)
    return common


@torch.no_grad()
def look_at_differences(detector: Detector, speaker: DynamicSpeaker, common: Tensor) -> None:
    """The map begins as the sum of D, which is not negative, and the speaker hears l beside `common`."""
    of_image, of_difference = detector.map.embed.weight.flatten(1).chunk(2, 1)  # (M, A) each
    of_image *= CALM
    of_difference.abs_()
    detector.map.begin(STEEPNESS, LEAST)
    detector.norm.weight.fill_(DIFFERENT / HEARD)
    listen(speaker.look.weight, speaker.look.bias, torch.cat([common, 0 * common, common]))
    heard = speaker.speaking.weight_ih[:, speaker.words.embedding_dim :]
    listen(heard, speaker.speaking.bias_ih, common * 2 / 3)  # bef and aft, each of weight 1/3


def listen(weight: Tensor, bias: Tensor, usual: Tensor) -> None:
    """W x + b becomes HEARD W (x - usual) + b."""
    weight *= HEARD
    bias -= weight @ usual


def encoding(sizes: VardSizes | TransformerSizes, switches: SpeakerSwitches) -> nn.Sequential:
    """U = W x + b of each cell: (B, C, H, W) -> (B, N, A)."""
    cells = GridCells(switches.coordinates)
    return nn.Sequential(cells, nn.Linear(sizes.channels + 2 * switches.coordinates, sizes.width))


def vard(sizes: VardSizes, switches: SpeakerSwitches, *, dropout: float) -> Captioner:
    """VARD with LSTMs, as it is released; without its classifier, which no loss reads."""
    cells, detector = encoding(sizes, switches), Detector(sizes, switches, dropout)
    model = DynamicCaptioner(sizes, sizes.width, switches, dropout, cells, detector)
    if switches.first_weights == "differing":
        look_at_differences(detector, model.decoder, compare(cells, detector.disentangle))
    return model


def vard_transformer(sizes: TransformerSizes, switches: SpeakerSwitches, *, dropout: float) -> Captioner:
    """VARD with the papers' Transformer over D, which its published rows have and no program (inferred)."""
    widths = sizes.word_width, sizes.width, sizes.heads, sizes.decoder_layers
    decoder = CaptionDecoder(sizes.vocabulary, sizes.longest, *widths, dropout)
    cells, difference = encoding(sizes, switches), Changed(sizes, dropout)
    if switches.first_weights == "differing":
        compare(cells, difference.disentangle)
    return Captioner(sizes, difference, {}, dropout, encoding=cells, decoder=decoder)


SWITCHES = frozenset(("coordinates", "pooled", "barred", "first_weights"))
VARD = Entry(vard, RELEASED, SWITCHES, VardSizes, "vard", loss=LOSS)
VARD_TRANSFORMER = Entry(
    vard_transformer,
    RELEASED,
    frozenset(("coordinates", "first_weights")),
    TransformerSizes,
    "vard_transformer",
)
