"""CBR: cross-modal backward reasoning (Tu et al., ICCV 2023), section 3.4.

From the before image and the caption, the model imagines the after image, which should match the real one.
B: pairs of the batch; b: pairs of this process; N, M: cells of an image; D: width; h: heads;
d = D/h; L: words.
"""

import torch
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention
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
        words = sentence[:, None].expand_as(before)
        joined = self.join(torch.cat([before, words], -1))  # Eq. 9
        return self.imagine(self.attention(joined, joined))  # Eq. 10

    def forward(self, pair: Difference, words: Words) -> Tensor:
        sentence = mean_word(words) if self.switches.sentence == "real" else self.padded_mean(words)
        imagined = self.hallucinate(pair.before, sentence)
        to_after = self.match(imagined, pair.after)  # (b, B)
        if self.switches.reverse == "own":
            to_imagined = self.match(pair.after, imagined)
        else:
            to_imagined = everyone(to_after).T[own(len(to_after))]
        return self.contrast(to_after, to_imagined)  # Eq. 11

    def padded_mean(self, words: Words) -> Tensor:
        """Sum the states of all tokens, with <START> and <END>; divide by the longest caption's length.

        The released programs pad every caption to that length. Using it instead of the width of the batch
        makes the result independent of the other captions in the batch.
        """
        return masked_sum(words.hidden, words.read) / self.longest

    def constrain(self) -> None:
        self.contrast.constrain()


class MultiHeadMatching(nn.Module):
    """MTM (SCORER Eq. 3) with its own projections: queries from the first argument, keys from the second."""

    def __init__(self, width: int, heads: int, mtm: Mtm = "per_head"):
        super().__init__()
        self.heads, self.mtm = heads, mtm
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Match this process's pairs, (b, N, D), with the pairs of all processes: (b, M, D) -> (b, B)."""
        q = self.query(first).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, h, N, d)
        k = self.key(second).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return matching(q, k, self.mtm)


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
