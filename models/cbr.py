"""CBR: cross-modal backward reasoning (Tu et al., ICCV 2023), section 3.4.

From the before image and the caption, imagine the after image; it should match the real one.
B pairs, N cells an image, D width, h heads, d = D/h, L words.
"""

import torch
from torch import Tensor, nn

from models.attention import MultiHeadAttention
from models.captioner import Captioner, Difference, Sizes
from models.decoder import Words
from models.gathering import everyone, own
from models.matching import Contrast, matching
from models.scorer import between_views, captioner
from models.switches import Mtm, Switches


class CellMap(nn.Linear):
    """A 1x1 convolution: a linear map of each cell, with a convolution's first weights in every variant."""


class BackwardReasoning(nn.Module):
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
        """Before tokens B x N x D and the sentence B x D -> the imagined after tokens B x N x D."""
        words = sentence[:, None].expand_as(before)
        joined = self.join(torch.cat([before, words], -1))  # Eq. 9
        return self.imagine(self.attention(joined, joined))  # Eq. 10

    def forward(self, pair: Difference, words: Words) -> Tensor:
        length = self.longest if self.switches.sentence == "padded" else None
        imagined = self.hallucinate(pair.before, mean_word(words, length))
        to_after = self.match(imagined, pair.after)  # b x B
        if self.switches.reverse == "own":
            to_imagined = self.match(pair.after, imagined)
        else:
            to_imagined = everyone(to_after).T[own(len(to_after))]
        return self.contrast(to_after, to_imagined)  # Eq. 11

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
        """This process's pairs, b x N x D, against everyone's, of each b x M x D -> b x B."""
        q = self.query(first).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # B x h x N x d
        k = self.key(second).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return matching(q, k, self.mtm)


def mean_word(words: Words, length: int | None = None) -> Tensor:
    """The mean over a caption's real words of the decoder's last states, B x D (before SCORER Eq. 9).

    With a `length` their sum is divided by it instead. The released programs pad every caption to the
    longest one's tokens, both marks among them, so it is that number and not the width of a batch:
    a caption's sentence does not depend on what else is in its batch.
    """
    real = words.real[..., None].to(words.hidden.dtype)  # B x L x 1
    return (words.hidden * real).sum(1) / (real.sum(1) if length is None else length)


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
