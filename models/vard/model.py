"""VARD: viewpoint-adaptive representation disentanglement (Tu et al., TIP 2023).

The module PERL relates the cells of an image to each other and to their positions. The module URD subtracts
from each image the part that both images share. The rest, D, determines the attention maps. Equations:
docs/methods.md, "VARD".
B: pairs; C: feature channels; H x W: grid; N: cells of an image; A: width; h: heads; d = A/h. U: an image's
cells after the first layer; D: the difference. U and D are (B, N, A).
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
from models.common.grid_embedding import GridCells, TransformerSizes
from models.initialisation.counterpart_weights import CALM, SHOWN, calm

EPSILON = 1e-6  # of the layer norms
# constants of the initialisation `differing`
LOUD = 24.0  # D = ReLU(LOUD R (c_bef - c_aft)), where R is orthogonal and c are an image's cells
USUAL = 6.0  # size of the bias before the norm of D, which is much longer than the rest of the norm's input
# a cell has a weight above 1/2 if D is two deviations above the mean of all cells (CellMap.begin)
STEEPNESS, LEAST = 4.0, 2.0
HEARD = 10.0  # factor of the attended vectors in the speaker, because a common bias dominates them
DIFFERENT = 1.5  # scale of l_diff, the vector of the difference, in the speaker


@dataclass(frozen=True)
class VardSizes(SpeakerSizes):
    """Sizes of VARD with the dynamic speaker: sizes of the detector and of the speaker."""

    multiples = (*SpeakerSizes.multiples, ("width", "heads"))

    width: int  # A
    heads: int


class Perl(nn.Module):
    """Position-embedded representation learning (PERL): LN(MHA(U, U, U) + DW(v) + U) of an image's cells U.

    MHA has no output map. DW is a depthwise 3 x 3 convolution of the attention's values v over the grid.
    """

    def __init__(self, grid: tuple[int, int], width: int, heads: int, dropout: float):
        super().__init__()
        self.grid = grid
        self.attention = MultiHeadAttention(width, heads, dropout, output=False)
        self.places = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.LayerNorm(width, EPSILON)

    def forward(self, cells: Tensor) -> Tensor:
        """Return the output of PERL, (B, N, A), for the cells of an image, (B, N, A)."""
        attention, values = self.attention, self.attention.value(cells)
        q, k = attention.queries(cells), attention.split(attention.key(cells))
        related = attention.attend(q, k, attention.split(values))
        on_grid = values.transpose(1, 2).unflatten(-1, self.grid)  # (B, A, H, W)
        placed = self.places(on_grid).flatten(2).transpose(1, 2)
        return self.norm(related + placed + cells)

    def across(self, cells: Tensor, others: Tensor) -> Tensor:
        """Let `cells` attend to `others` without projections; both are outputs of PERL, (B, N, A)."""
        split = self.attention.split
        return self.attention.attend(split(cells), split(others), split(others))


class Disentangling(nn.Module):
    """Unchanged representation disentanglement (URD): the content of each cell that only one image has."""

    def __init__(self, grid: tuple[int, int], width: int, heads: int, dropout: float):
        super().__init__()
        self.perl = Perl(grid, width, heads, dropout)
        self.same = nn.LayerNorm(width, EPSILON)  # used for both directions
        self.fuse, self.norm = nn.Linear(2 * width, width), nn.LayerNorm(width, EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return PERL's outputs for both images, and the difference D. Inputs and results are (B, N, A)."""
        b, a = self.perl(before), self.perl(after)
        b_same = self.same(self.perl.across(b, a) + b)
        a_same = self.same(self.perl.across(a, b) + a)
        changed = self.norm(self.fuse(torch.cat([b - b_same, a - a_same], -1)))
        return b, a, torch.relu(self.dropout(changed))


class Detector(nn.Module):
    """VARD's change detector, which computes a vector for each image and a vector for the difference.

    The vector of an image is the sum or the mean of its cells, weighted by its attention map.
    """

    def __init__(self, sizes: VardSizes, switches: SpeakerSwitches, dropout: float):
        super().__init__()
        A = sizes.width
        self.disentangle = Disentangling(sizes.grid, A, sizes.heads, dropout)
        self.map = CellMap(2 * A, sizes.maps, dropout)
        self.fuse, self.norm = nn.Linear(2 * A, A), nn.LayerNorm(A, EPSILON)
        self.dropout, self.pooled = nn.Dropout(dropout), switches.pooled

    def forward(self, before: Tensor, after: Tensor) -> Attended:
        """Compute the attended vectors of a pair from the cells of both images, (B, N, A) each."""
        b, a, D = self.disentangle(before, after)
        maps = [self.map(image, D) for image in (b, a)]  # (B, N) each
        l_bef, l_aft = (attended(own, image, self.pooled) for own, image in zip(maps, (b, a), strict=True))
        both = torch.cat([l_bef - l_aft, l_aft - l_bef], -1)  # (B, 2A)
        l_diff = torch.relu(self.dropout(self.norm(self.fuse(both))))
        return Attended(torch.stack([l_bef, l_diff, l_aft], 1), before, after, torch.stack(maps, 1))


class Changed(nn.Module):
    """Encoder that computes the difference D, the memory of a transformer decoder."""

    def __init__(self, sizes: TransformerSizes, dropout: float):
        super().__init__()
        self.disentangle = Disentangling(sizes.grid, sizes.width, sizes.heads, dropout)

    def forward(self, before: Tensor, after: Tensor) -> Difference:
        """Compute the Difference from the cells of both images, (B, N, A) each; its memory is (B, N, A)."""
        return Difference(self.disentangle(before, after)[2], before, after)


@torch.no_grad()
def compare(encoding: nn.Sequential, parts: Disentangling) -> Tensor:
    """Initialise the weights so that the difference D at a cell depends on c_bef - c_aft (not published).

    c_bef and c_aft are PERL's outputs at this cell without the part that all cells have in common. Returns
    the common part, (A,).
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
    """Initialise the attention maps so that they are high where D is large.

    The speaker subtracts `common`, the part that all outputs of PERL share, from the attended vectors.
    """
    of_image, of_difference = detector.map.embed.weight.flatten(1).chunk(2, 1)  # (M, A) each
    of_image *= CALM
    of_difference.abs_()
    detector.map.begin(STEEPNESS, LEAST)
    detector.norm.weight.fill_(DIFFERENT / HEARD)
    listen(speaker.look.weight, speaker.look.bias, torch.cat([common, 0 * common, common]))
    heard = speaker.speaking.weight_ih[:, speaker.words.embedding_dim :]
    listen(heard, speaker.speaking.bias_ih, common * 2 / 3)  # before and after have weight 1/3 each


def listen(weight: Tensor, bias: Tensor, usual: Tensor) -> None:
    """Replace a linear map W x + b, in place, by HEARD W (x - usual) + b; HEARD is a constant factor."""
    weight *= HEARD
    bias -= weight @ usual


def encoding(sizes: VardSizes | TransformerSizes, switches: SpeakerSwitches) -> nn.Sequential:
    """Build the module that maps each cell x of a feature grid, (B, C, H, W), to U = W x + b, (B, N, A)."""
    cells = GridCells(switches.coordinates)
    return nn.Sequential(cells, nn.Linear(sizes.channels + 2 * switches.coordinates, sizes.width))


def vard(sizes: VardSizes, switches: SpeakerSwitches, *, dropout: float) -> Captioner:
    """Build VARD with LSTMs. The released program's classifier is left out, because no loss uses it."""
    cells, detector = encoding(sizes, switches), Detector(sizes, switches, dropout)
    model = DynamicCaptioner(sizes, sizes.width, switches, dropout, cells, detector)
    if switches.first_weights == "differing":
        look_at_differences(detector, model.decoder, compare(cells, detector.disentangle))
    return model


def vard_transformer(sizes: TransformerSizes, switches: SpeakerSwitches, *, dropout: float) -> Captioner:
    """Build VARD with a transformer decoder. Its program was not released; we inferred the details."""
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
