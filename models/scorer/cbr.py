"""CBR: cross-modal backward reasoning (Tu et al., ICCV 2023), section 3.4.

From the before image and the caption, imagine the after image; it should match the real one.
B pairs, N cells an image, D width, h heads, d = D/h, L words.
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
    """A 1x1 convolution: a linear map of each cell, with a convolution's first weights in every variant."""


class BackwardReasoning(Regulariser):
    """L_cm (SCORER Eq. 9-11), with a matching of its own; the switch `contrast` is not of this one."""

    def __init__(self, sizes: Sizes, temperature: float, switches: Switches):
        super().__init__()
        D = sizes.width
        self.switches, self.longest = switches, sizes.longest
        self.contrast = Contrast(temperature, switches.temperature == "learned")
        self.join = CellMap(2 * D, D)
        # the released programs' lack of a W^O is said of reconstruction and decoder, not of this one
        self.attention = MultiHeadAttention(D, sizes.heads, bias=switches.cbr_bias)
        self.imagine = CellMap(D, D)
        self.match = MultiHeadMatching(D, sizes.heads, switches.mtm)
        # the contrast's learned temperature, too: none of it stands in the released optimiser
        self.requires_grad_(switches.train_cbr)

    def hallucinate(self, before: Tensor, sentence: Tensor) -> Tensor:
        """Before tokens (B, N, D) and the sentence (B, D) -> the imagined after tokens (B, N, D)."""
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
        """The sum of the states of all tokens, both marks too, divided by the longest caption's length.

        The released programs pad every caption to the longest one's tokens: it is that number and not the
        width of a batch, so that a caption's sentence does not depend on what else is in its batch.
        """
        return masked_sum(words.hidden, words.read) / self.longest

    def constrain(self) -> None:
        self.contrast.constrain()


class MultiHeadMatching(nn.Module):
    """MTM with its own projections (SCORER Eq. 3): queries of the first argument, keys of the second."""

    def __init__(self, width: int, heads: int, mtm: Mtm = "per_head"):
        super().__init__()
        self.heads, self.mtm = heads, mtm
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """This process's pairs, (b, N, D), against everyone's, of each (b, M, D) -> (b, B)."""
        q = self.query(first).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, h, N, d)
        k = self.key(second).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return matching(q, k, self.mtm)


def mean_word(words: Words) -> Tensor:
    """The mean over a caption's real words of the decoder's last states, (B, D) (before SCORER Eq. 9)."""
    return masked_sum(words.hidden, words.real) / words.real.to(words.hidden.dtype).sum(1, keepdim=True)


def masked_sum(hidden: Tensor, mask: Tensor) -> Tensor:
    """(B, L, D) -> (B, D): the sum over the places where the mask, (B, L), is true."""
    return (hidden * mask[..., None].to(hidden.dtype)).sum(1)


def rr_cbr(sizes: Sizes, switches: Switches, *, dropout: float, temperature: float) -> Captioner:
    """Reconstruction and backward reasoning, without the contrast between views (Table 6)."""
    terms = {"cbr": BackwardReasoning(sizes, temperature, switches)}
    return captioner(sizes, switches, dropout, terms)


def scorer_cbr(sizes: Sizes, switches: Switches, *, dropout: float, temperature: float) -> Captioner:
    """The whole of the paper: SCORER and CBR."""
    terms = {
        "cv": between_views(temperature, switches),
        "cbr": BackwardReasoning(sizes, temperature, switches),
    }
    return captioner(sizes, switches, dropout, terms)


REASONING = frozenset(("mtm", "temperature", "sentence", "reverse", "cbr_bias", "train_cbr"))
RR_CBR = Entry(rr_cbr, RELEASED, RECONSTRUCTION | REASONING)
SCORER_CBR = Entry(scorer_cbr, RELEASED, RECONSTRUCTION | VIEWS | REASONING)
