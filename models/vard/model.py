"""VARD: viewpoint-adaptive representation disentanglement (Tu et al., TIP 2023).

The module PERL relates the cells of an image to each other and to their positions. The module URD subtracts
from each image the part that both images share. The result is the difference D, from which the attention maps
are computed. Equations: docs/methods.md, "VARD".
B: pairs; C: feature channels; H x W: grid; N: cells of an image; A: width; h: heads; d = A/h. U: an image's
cells after the linear map `cells`; D: the difference. U and D are (B, N, A).
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
    AttendedDifference,
    AttentionMap,
    DynamicCaptioner,
    DynamicSpeaker,
    SpeakerSizes,
    SpeakerSwitches,
    attended,
)
from models.common.entry import PLAIN, Entry
from models.common.grid_embedding import GridCells, TransformerSizes
from models.initialisation.counterpart_weights import CONTENT_SCALE, OUTPUT_SCALE, scale_down

EPSILON = 1e-6  # of the layer norms
# constants of the initialisation `differing`
# D = ReLU(DIFFERENCE_GAIN R (c_bef - c_aft)), where R is orthogonal and c are an image's cells
DIFFERENCE_GAIN = 24.0
# size of the bias before the norm of D, which is much longer than the rest of the norm's input
BIAS_SCALE = 6.0
# a cell has a weight above 1/2 if D is two deviations above the mean of all cells (CellMap.initialise)
STEEPNESS, LEAST = 4.0, 2.0
VECTOR_GAIN = 10.0  # factor of the attended vectors in the speaker, because a common bias dominates them
DIFFERENCE_SCALE = 1.5  # scale of l_diff, the vector of the difference, in the speaker


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
        """Apply PERL, position-embedded representation learning, to cells (B, N, A); keep the shape."""
        attention, values = self.attention, self.attention.value(cells)
        q, k = attention.queries(cells), attention.split(attention.key(cells))
        attended_cells = attention.attend(q, k, attention.split(values))
        grids = values.transpose(1, 2).unflatten(-1, self.grid)  # (B, A, H, W)
        convolved = self.places(grids).flatten(2).transpose(1, 2)
        return self.norm(attended_cells + convolved + cells)

    def across(self, cells: Tensor, others: Tensor) -> Tensor:
        """Let outputs of PERL attend to others without linear maps: (B, N, A) each -> (B, N, A)."""
        split = self.attention.split
        return self.attention.attend(split(cells), split(others), split(others))


class VardDisentangling(nn.Module):
    """Unchanged representation disentanglement (URD): remove from each cell what both images share.

    The shared part is subtracted from each image. The difference is computed from what remains.
    """

    def __init__(self, grid: tuple[int, int], width: int, heads: int, dropout: float):
        super().__init__()
        self.perl = Perl(grid, width, heads, dropout)
        self.same = nn.LayerNorm(width, EPSILON)  # used for both directions
        self.fuse, self.norm = nn.Linear(2 * width, width), nn.LayerNorm(width, EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return both images after PERL (position-embedded representation learning), and the difference D."""
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
        self.disentangle = VardDisentangling(sizes.grid, A, sizes.heads, dropout)
        self.map = AttentionMap(2 * A, sizes.maps, dropout)
        self.fuse, self.norm = nn.Linear(2 * A, A), nn.LayerNorm(A, EPSILON)
        self.dropout, self.pooled = nn.Dropout(dropout), switches.pooled

    def forward(self, before: Tensor, after: Tensor) -> AttendedDifference:
        """Attend to cells, (B, N, A) each; `memory`, (B, 3, A), is before image, difference, after image."""
        b, a, D = self.disentangle(before, after)
        maps = [self.map(image, D) for image in (b, a)]  # (B, N) each
        l_bef, l_aft = attended(maps[0], b, self.pooled), attended(maps[1], a, self.pooled)
        both = torch.cat([l_bef - l_aft, l_aft - l_bef], -1)  # (B, 2A)
        l_diff = torch.relu(self.dropout(self.norm(self.fuse(both))))
        return AttendedDifference(torch.stack([l_bef, l_diff, l_aft], 1), before, after, torch.stack(maps, 1))


class Changed(nn.Module):
    """Encoder that computes the difference D, the memory of a transformer decoder."""

    def __init__(self, sizes: TransformerSizes, dropout: float):
        super().__init__()
        self.disentangle = VardDisentangling(sizes.grid, sizes.width, sizes.heads, dropout)

    def forward(self, before: Tensor, after: Tensor) -> Difference:
        return Difference(self.disentangle(before, after)[2], before, after)


@torch.no_grad()
def compare(cells: nn.Linear, disentangle: VardDisentangling) -> Tensor:
    """Initialise the difference D at a cell to depend on how the images differ there (not from the paper).

    Each encoded cell, an output of `disentangle.perl`, is then about v + c: v, (A,), is the same for all
    cells, and c is the cell's content. D depends on c of the before image minus c of the after image. Returns
    v.
    """
    A = cells.out_features
    common, bias = F.layer_norm(torch.randn(2, A), [A])
    cells.weight *= CONTENT_SCALE
    cells.bias.copy_(common)
    scale_down(disentangle.perl.attention.value, disentangle.perl.places)
    rotation = nn.init.orthogonal_(torch.empty(A, A))
    fuse, norm = disentangle.fuse, disentangle.norm
    fuse.weight.copy_(DIFFERENCE_GAIN * torch.cat([rotation, -rotation], 1))
    fuse.bias.copy_(BIAS_SCALE * bias)
    norm.weight.fill_(BIAS_SCALE)
    norm.bias.copy_(-BIAS_SCALE * bias)
    return common


@torch.no_grad()
def attend_to_differences(detector: Detector, speaker: DynamicSpeaker, common: Tensor) -> None:
    """Make the attention maps high at cells where the two images differ.

    The speaker subtracts `common`, a vector that all encoded cells have in common, from what the attention
    returns.
    """
    image_weight, difference_weight = detector.map.embed.weight.flatten(1).chunk(2, 1)  # (M, A) each
    image_weight *= OUTPUT_SCALE
    difference_weight.abs_()
    detector.map.initialise(STEEPNESS, LEAST)
    detector.norm.weight.fill_(DIFFERENCE_SCALE / VECTOR_GAIN)
    subtract_common(speaker.look.weight, speaker.look.bias, torch.cat([common, 0 * common, common]))
    memory_weight = speaker.speaking.weight_ih[:, speaker.words.embedding_dim :]
    # before and after have weight 1/3 each
    subtract_common(memory_weight, speaker.speaking.bias_ih, common * 2 / 3)


def subtract_common(weight: Tensor, bias: Tensor, common: Tensor) -> None:
    """Replace W x + b, in place, by VECTOR_GAIN W (x - common) + b."""
    weight *= VECTOR_GAIN
    bias -= weight @ common


def vard(sizes: VardSizes, switches: SpeakerSwitches, *, dropout: float) -> Captioner:
    """Build VARD with LSTMs. The released program's classifier is left out, because no loss uses it."""
    cells = nn.Linear(sizes.channels + 2 * switches.coordinates, sizes.width)  # U = W x + b of each cell x
    detector = Detector(sizes, switches, dropout)
    encoding = nn.Sequential(GridCells(switches.coordinates), cells)
    model = DynamicCaptioner(sizes, sizes.width, switches, dropout, encoding, detector)
    if switches.first_weights == "differing":
        attend_to_differences(detector, model.decoder, compare(cells, detector.disentangle))
    return model


def vard_transformer(sizes: TransformerSizes, switches: SpeakerSwitches, *, dropout: float) -> Captioner:
    """Build VARD with a transformer decoder; the authors released only LSTMs, so details are inferred."""
    decoder = CaptionDecoder(sizes, dropout)
    cells = nn.Linear(sizes.channels + 2 * switches.coordinates, sizes.width)  # U = W x + b of each cell x
    difference = Changed(sizes, dropout)
    if switches.first_weights == "differing":
        compare(cells, difference.disentangle)
    encoding = nn.Sequential(GridCells(switches.coordinates), cells)
    return Captioner(sizes, difference, {}, dropout, encoding=encoding, decoder=decoder)


SWITCHES = frozenset(("coordinates", "pooled", "barred", "first_weights"))
VARD = Entry(
    vard,
    RELEASED,
    SWITCHES,
    VardSizes,
    "vard",
    layer={
        "settings": {"dropout": 0.5},
        "sizes": {"maps": 128, "hidden": 512, "word_width": 300, "width": 256, "heads": 4},
        "loss": LOSS,
        "train": PLAIN | {"learning_rate": 1e-3, "schedule": "constant"},
    },
)
TRANSFORMER_SWITCHES = frozenset(("coordinates", "first_weights"))
VARD_TRANSFORMER = Entry(
    vard_transformer,
    RELEASED,
    TRANSFORMER_SWITCHES,
    TransformerSizes,
    "vard_transformer",
    # depth, learning rate and dropout are the dataset's (SCORER's), because none are published
    layer={"sizes": {"width": 256, "heads": 4}, "train": PLAIN},
)
