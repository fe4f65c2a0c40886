"""CBR: cross-modal backward reasoning (Tu et al., ICCV 2023), section 3.4.

From the before image and the caption, imagine the after image; it should match the real one.
B pairs, N cells an image, D width, h heads, d = D/h, L words.
"""

import torch
from torch import Tensor, nn

from models.attention import MultiHeadAttention
from models.captioner import Captioner, Difference, Sizes
from models.decoder import Words
from models.matching import Contrast, matching
from models.scorer import Scorer, ViewInvariance


class BackwardReasoning(nn.Module):
    """L_cm (SCORER Eq. 9-11), with a matching of its own."""

    def __init__(self, sizes: Sizes, temperature: float):
        super().__init__()
        D = sizes.width
        self.contrast = Contrast(temperature)
        self.join = nn.Linear(2 * D, D)  # a 1x1 convolution is a linear map of each cell
        self.attention = MultiHeadAttention(D, sizes.heads)
        self.imagine = nn.Linear(D, D)
        self.match = MultiHeadMatching(D, sizes.heads)

    def hallucinate(self, before: Tensor, sentence: Tensor) -> Tensor:
        """Before tokens B x N x D and the sentence B x D -> the imagined after tokens B x N x D."""
        words = sentence[:, None].expand_as(before)
        joined = self.join(torch.cat([before, words], -1))  # Eq. 9
        return self.imagine(self.attention(joined, joined))  # Eq. 10

    def forward(self, pair: Difference, words: Words) -> Tensor:
        imagined = self.hallucinate(pair.before, mean_word(words))
        to_after = self.match(imagined, pair.after)  # B x B
        to_imagined = self.match(pair.after, imagined)
        return self.contrast(to_after, to_imagined)  # Eq. 11


class MultiHeadMatching(nn.Module):
    """MTM with its own projections (SCORER Eq. 3): queries of the first argument, keys of the second."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """B x N x D, A x M x D -> B x A."""
        q = self.query(first).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # B x h x N x d
        k = self.key(second).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return matching(q, k)


def mean_word(words: Words) -> Tensor:
    """The mean over a caption's real words of the decoder's last states, B x D (before SCORER Eq. 9)."""
    real = words.real[..., None].to(words.hidden.dtype)  # B x L x 1
    return (words.hidden * real).sum(1) / real.sum(1)


def rr_cbr(sizes: Sizes, *, dropout: float, temperature: float) -> Captioner:
    """Reconstruction and backward reasoning, without the contrast between views (Table 6)."""
    reasoning = BackwardReasoning(sizes, temperature)
    return Captioner(sizes, Scorer(sizes), {"cbr": reasoning}, dropout)


def scorer_cbr(sizes: Sizes, *, dropout: float, temperature: float) -> Captioner:
    """The whole of the paper: SCORER and CBR."""
    terms = {"cv": ViewInvariance(temperature), "cbr": BackwardReasoning(sizes, temperature)}
    return Captioner(sizes, Scorer(sizes), terms, dropout)
