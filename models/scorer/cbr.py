"""CBR: cross-modal backward reasoning (Tu et al., ICCV 2023), section 3.4.

The model computes an imagined "after" image from the before image and the caption. A loss makes the imagined
image match the real "after" image.
B: pairs of the batch; b: pairs of this process; N, M: cells of an image; D: width; h: heads;
d = D/h; L: words.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention, jointly
from models.common.captioner import Captioner, Difference, Regulariser, Sizes
from models.common.decoder_protocol import Words
from models.common.distributed_batch import join_processes, process_slice
from models.common.entry import Entry
from models.common.switches import RELEASED, Mtm, Switches
from models.kernels.matching import Contrast, matching
from models.scorer.model import RECONSTRUCTION, TEMPERATURE, VIEWS, between_views, captioner


class CellMap(nn.Linear):
    """Linear map of each cell. In the released program, this map is a 1x1 convolution.

    The released program initialises linear layers by N(0, 0.02), but not convolutions. Therefore the
    function `initialise` (captioner.py) leaves the weights of this class as PyTorch initialised them.
    """


class BackwardReasoning(Regulariser):
    """Loss L_cm of backward reasoning (SCORER Eq. 9-11).

    The matching in this loss has its own weights; it does not use those of the loss L_cv.
    """

    def __init__(self, sizes: Sizes, temperature: float, switches: Switches):
        super().__init__()
        D = sizes.width
        self.switches, self.longest = switches, sizes.longest
        self.contrast = Contrast(temperature, switches.temperature == "learned")
        self.join = CellMap(2 * D, D)
        # has a W^O in all variants: `attention_output` concerns only reconstruction and decoder
        self.attention = MultiHeadAttention(D, sizes.heads, bias=switches.cbr_bias)
        self.imagine = CellMap(D, D)
        self.match = MultiHeadMatching(D, sizes.heads, switches.mtm)
        # also the learned temperature: the released program's optimiser has none of these parameters
        self.requires_grad_(switches.train_cbr)

    def hallucinate(self, before: Tensor, sentence: Tensor) -> Tensor:
        """Return imagined "after" images, (B, N, D), from before images, (B, N, D), and sentences, (B, D)."""
        cell_weight, word_weight = self.join.weight.chunk(2, 1)
        words = F.linear(sentence, word_weight, self.join.bias)[:, None]  # (B, 1, D)
        joined = F.linear(before, cell_weight) + words  # Eq. 9: W [before ; words], (B, N, D)
        return self.imagine(self.attention(joined, joined))  # Eq. 10

    def prepare(self, pair: Difference, words: Words) -> "Imagined":
        """Imagine "after" images from before images and captions; return queries and keys to match them."""
        if self.switches.sentence == "real":
            sentence = mean_word(words)
        else:
            sentence = masked_sum(words.hidden, words.read) / self.longest
        imagined = self.hallucinate(pair.before, sentence)
        return self.match.projected(imagined, pair.after, both=self.switches.reverse == "own")

    def forward(self, pair: "Imagined", words: Words) -> Tensor:
        to_after, *to_imagined = (matching(x.queries, x.keys, self.match.mtm) for x in pair.directions)
        if not to_imagined:  # (b, B)
            to_imagined = [join_processes(to_after).T[process_slice(len(to_after))]]
        return self.contrast(to_after, *to_imagined)  # Eq. 11

    def constrain(self) -> None:
        self.contrast.constrain()


@dataclass
class Direction:
    """Queries and keys of the matching in one direction, from one image to the other."""

    queries: Tensor  # (B, h, N, d)
    keys: Tensor  # (B, h, M, d)


@dataclass
class Imagined:
    """Queries and keys to match imagined "after" images with real "after" images.

    The tuple `directions` has one or two elements. directions[0] has queries of the imagined images and
    keys of the real images. directions[1] has queries of the real images and keys of the imagined
    images. The tuple has directions[1] only with the switch `reverse: own`.
    """

    directions: tuple[Direction, ...]


class MultiHeadMatching(nn.Module):
    """Projections W^Q and W^K of the multi-head token-wise matching, MTM (SCORER Eq. 3)."""

    def __init__(self, width: int, heads: int, mtm: Mtm):
        super().__init__()
        self.heads, self.mtm = heads, mtm
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)

    def projected(self, first: Tensor, second: Tensor, both: bool) -> Imagined:
        """Return queries of `first` and keys of `second`, with `both` also the reverse: (B, h, N, d)."""
        if not both:
            return Imagined((Direction(self._split(self.query(first)), self._split(self.key(second))),))
        q, k = map(self._split, jointly(first, self.query, self.key))
        q_back, k_back = map(self._split, jointly(second, self.query, self.key))
        return Imagined((Direction(q, k_back), Direction(q_back, k)))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, h, N, d)


def mean_word(words: Words) -> Tensor:
    """Return the mean of the last layer's states over a caption's words, (B, D) (SCORER, before Eq. 9)."""
    return masked_sum(words.hidden, words.real) / words.real.to(words.hidden.dtype).sum(1, keepdim=True)


def masked_sum(hidden: Tensor, mask: Tensor) -> Tensor:
    return (hidden * mask[..., None].to(hidden.dtype)).sum(1)


def rr_cbr(sizes: Sizes, switches: Switches, *, dropout: float, temperature: float) -> Captioner:
    """Build RR+CBR: SCORER with backward reasoning, but without the contrast L_cv (Table 6)."""
    terms = {"cbr": BackwardReasoning(sizes, temperature, switches)}
    return captioner(sizes, switches, dropout, terms)


def scorer_cbr(sizes: Sizes, switches: Switches, *, dropout: float, temperature: float) -> Captioner:
    """Build SCORER+CBR, the complete model of the paper; `temperature`: of L_cv and L_cm, unless learned."""
    terms = {
        "cv": between_views(temperature, switches),
        "cbr": BackwardReasoning(sizes, temperature, switches),
    }
    return captioner(sizes, switches, dropout, terms)


REASONING = frozenset(("mtm", "temperature", "sentence", "reverse", "cbr_bias", "train_cbr"))
RR_CBR = Entry(
    rr_cbr,
    RELEASED,
    RECONSTRUCTION | REASONING,
    layer={"settings": TEMPERATURE, "loss": {"lambda_cbr": None}},
)
SCORER_CBR = Entry(
    scorer_cbr,
    RELEASED,
    RECONSTRUCTION | VIEWS | REASONING,
    layer={"settings": TEMPERATURE, "loss": {"lambda_cv": None, "lambda_cbr": None}},
)
