"""CBR: cross-modal backward reasoning (Tu et al., ICCV 2023), section 3.4.

From the before image and the caption, the model imagines the after image, which should match the real one.
B: pairs of the batch; b: pairs of this process; N, M: cells of an image; D: width; h: heads;
d = D/h; L: words.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention, jointly
from models.common.captioner import Captioner, Difference, Regulariser, Sizes
from models.common.decoder_protocol import Words
from models.common.distributed_batch import everyone, own
from models.common.entry import Entry
from models.common.switches import RELEASED, Mtm, Switches
from models.kernels.matching import Contrast, matching
from models.scorer.model import RECONSTRUCTION, VIEWS, between_views, captioner


class CellMap(nn.Linear):
    """A 1x1 convolution as a linear map; all variants initialise it like a convolution."""


class BackwardReasoning(Regulariser):
    """L_cm (SCORER Eq. 9-11), with its own matching; the switch `contrast` does not affect it."""

    def __init__(self, sizes: Sizes, temperature: float, switches: Switches):
        super().__init__()
        D = sizes.width
        self.switches, self.longest = switches, sizes.longest
        self.contrast = Contrast(temperature, switches.temperature == "learned")
        self.join = CellMap(2 * D, D)
        # it has a W^O in all variants: `attention_output` concerns only reconstruction and decoder
        self.attention = MultiHeadAttention(D, sizes.heads, bias=switches.cbr_bias)
        self.imagine = CellMap(D, D)
        self.match = MultiHeadMatching(D, sizes.heads, switches.mtm)
        # includes the learned temperature: the released optimiser has none of these parameters
        self.requires_grad_(switches.train_cbr)

    def hallucinate(self, before: Tensor, sentence: Tensor) -> Tensor:
        """Return the imagined after tokens, (B, N, D), from before tokens (B, N, D) and sentences (B, D)."""
        of_cells, of_words = self.join.weight.chunk(2, 1)
        words = F.linear(sentence, of_words, self.join.bias)[:, None]  # (B, 1, D)
        joined = F.linear(before, of_cells) + words  # Eq. 9: W [before ; words], (B, N, D)
        return self.imagine(self.attention(joined, joined))  # Eq. 10

    def prepare(self, pair: Difference, words: Words) -> "Imagined":
        """Imagine the after images of all parts, and project both ways of the matching."""
        sentence = mean_word(words) if self.switches.sentence == "real" else self.padded_mean(words)
        imagined = self.hallucinate(pair.before, sentence)
        return self.match.projected(imagined, pair.after, both=self.switches.reverse == "own")

    def forward(self, pair: "Imagined", words: Words) -> Tensor:
        to_after, *to_imagined = (matching(way.queries, way.keys, self.match.mtm) for way in pair.ways)
        if not to_imagined:  # (b, B)
            to_imagined = [everyone(to_after).T[own(len(to_after))]]
        return self.contrast(to_after, *to_imagined)  # Eq. 11

    def padded_mean(self, words: Words) -> Tensor:
        """Sum the states of all tokens, with <START> and <END>; divide by the longest caption's length.

        The released programs pad every caption to that length. Using it instead of the width of the batch
        makes the result independent of the other captions in the batch.
        """
        return masked_sum(words.hidden, words.read) / self.longest

    def constrain(self) -> None:
        self.contrast.constrain()


@dataclass
class Way:
    """Tokens of one direction of the matching: queries (B, h, N, d), keys (B, h, M, d)."""

    queries: Tensor
    keys: Tensor


@dataclass
class Imagined:
    """The matching's directions: the imagined image with the real one, and with `reverse: own` back."""

    ways: tuple[Way, ...]


class MultiHeadMatching(nn.Module):
    """Projections of MTM (SCORER Eq. 3), as backward reasoning has them: W^Q and W^K."""

    def __init__(self, width: int, heads: int, mtm: Mtm = "per_head"):
        super().__init__()
        self.heads, self.mtm = heads, mtm
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)

    def projected(self, first: Tensor, second: Tensor, both: bool) -> Imagined:
        """Project images (B, N, D) for the matching of the first with the second, and with `both` back."""
        if not both:
            return Imagined((Way(self._split(self.query(first)), self._split(self.key(second))),))
        (q, k), (q_back, k_back) = (
            map(self._split, jointly(x, self.query, self.key)) for x in (first, second)
        )
        return Imagined((Way(q, k_back), Way(q_back, k)))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, h, N, d)


def mean_word(words: Words) -> Tensor:
    """Average the decoder's last states over the words of each caption: (B, D) (before SCORER Eq. 9)."""
    return masked_sum(words.hidden, words.real) / words.real.to(words.hidden.dtype).sum(1, keepdim=True)


def masked_sum(hidden: Tensor, mask: Tensor) -> Tensor:
    """Sum over the positions where the mask, (B, L), is true: (B, L, D) -> (B, D)."""
    return (hidden * mask[..., None].to(hidden.dtype)).sum(1)


def rr_cbr(sizes: Sizes, switches: Switches, *, dropout: float, temperature: float) -> Captioner:
    """Build RR+CBR: reconstruction and backward reasoning, without the contrast between views (Table 6)."""
    terms = {"cbr": BackwardReasoning(sizes, temperature, switches)}
    return captioner(sizes, switches, dropout, terms)


def scorer_cbr(sizes: Sizes, switches: Switches, *, dropout: float, temperature: float) -> Captioner:
    """Build SCORER+CBR, the complete model of the paper."""
    terms = {
        "cv": between_views(temperature, switches),
        "cbr": BackwardReasoning(sizes, temperature, switches),
    }
    return captioner(sizes, switches, dropout, terms)


REASONING = frozenset(("mtm", "temperature", "sentence", "reverse", "cbr_bias", "train_cbr"))
RR_CBR = Entry(rr_cbr, RELEASED, RECONSTRUCTION | REASONING)
SCORER_CBR = Entry(scorer_cbr, RELEASED, RECONSTRUCTION | VIEWS | REASONING)
