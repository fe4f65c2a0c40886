"""DIRL: distractors-immune representation learning (Tu et al., ECCV 2024), Eq. 2-7.

A loss makes each channel of the before image correlated with the same channel of the after image, and
uncorrelated with the other channels. From each image, the part that both images share is subtracted; the rest
is the difference. The paper's F is the output of our module `encoding`.
B: pairs; N: cells of an image; D: width; h: heads; d = D/h.
"""

from typing import Any

import torch
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention
from models.common.captioner import Aligned, Captioner, Difference, PairMap, Regulariser, Sizes
from models.common.decoder_protocol import Words
from models.common.distributed_batch import processes, total
from models.common.entry import Entry
from models.common.switches import DECODER, RELEASED_DIRL, Switches
from models.common.transformer_block import feed_forward


class Interaction(nn.Module):
    """DIRL's encoder of the difference: each image without the part that both images share (Eq. 5-7)."""

    def __init__(self, sizes: Sizes, switches: Switches, dropout: float):
        super().__init__()
        D, self.layered = sizes.width, switches.shared == "layers"
        weight_dropout, output = dropout if switches.attention_dropout else 0.0, switches.attention_output
        layers = range(sizes.layers if self.layered else 1)
        self.attentions: Any = nn.ModuleList(
            MultiHeadAttention(D, sizes.heads, weight_dropout, output=output) for _ in layers
        )
        self.norms = nn.ModuleList(
            nn.LayerNorm(D, switches.norm_epsilon) if self.layered else nn.Identity() for _ in layers
        )
        self.residual_dropout = nn.Dropout(dropout)
        self.fuse = PairMap(D)
        self.norm = nn.LayerNorm(D) if switches.fusion_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout) if switches.fusion_dropout else nn.Identity()

    def forward(self, before: Tensor, after: Tensor) -> Aligned:
        """Compute the difference of the encoded images, (B, N, D) each."""
        b, a = before, after
        for attention, norm in zip(self.attentions, self.norms, strict=True):
            b_queries, b_keys, b_values = attention.projections(b)  # (B, h, N, d)
            a_queries, a_keys, a_values = attention.projections(a)
            # Eq. 5: F^s; both directions start from the layer's inputs and use the same weights
            b_shared = attention.attend(b_queries, a_keys, a_values)  # (B, N, D)
            a_shared = attention.attend(a_queries, b_keys, b_values)
            b, a = self._next(norm, b, b_shared), self._next(norm, a, a_shared)
        differences = torch.cat([before - b, after - a], -1)  # Eq. 6: F^d, (B, N, 2D)
        memory = torch.relu(self.dropout(self.norm(self.fuse(differences))))  # Eq. 7, (B, N, D)
        return Aligned(memory, before, after, a_queries, b_keys)

    def _next(self, norm: nn.Module, x: Tensor, shared: Tensor) -> Tensor:
        return norm(x + self.residual_dropout(shared)) if self.layered else shared


class ChannelCorrelation(Regulariser):
    """Loss L_dirl (DIRL Eq. 2-4), which drives the correlation matrix of channels to the identity.

    `alpha` is the weight of the correlations of different channels. Raises ValueError if it is negative.
    """

    def __init__(self, sizes: Sizes, alpha: float, switches: Switches, dropout: float):
        super().__init__()
        if not alpha >= 0:
            raise ValueError(f"alpha must not be negative, not {alpha}")
        self.alpha, self.center, self.terms = alpha, switches.center, switches.terms
        self.mlp = feed_forward(sizes.width, nn.ReLU(), dropout)

    def forward(self, pair: Difference, words: Words) -> Tensor:
        b, a = (self.mlp(x).flatten(0, 1) for x in (pair.before, pair.after))  # Eq. 2, (B*N, D)
        C = correlation(b, a, self.center)
        same = C.diagonal()
        non_perturbation = (1 - same).square().sum()  # Eq. 4: first term
        discrimination = self.alpha * (C.square().sum() - same.square().sum())  # Eq. 4: second term
        losses = {"non_perturbation": non_perturbation, "discrimination": discrimination}
        losses["both"] = non_perturbation + discrimination
        return losses[self.terms] / processes()  # each process computes the loss of the whole batch


def correlation(before: Tensor, after: Tensor, center: bool) -> Tensor:
    """Return the matrix of the correlations between both images' channels, (D, D) (DIRL Eq. 3).

    `before` and `after` are (tokens, D) each. Row i and column j hold the correlation of channel i of
    `before` with channel j of `after`, over the tokens of all processes. Without `center`, the correlation
    is the cosine of the two channels. With `center`, each channel is first standardised to the mean 0 and
    the unbiased standard deviation 1. The correlation is then the mean of the products of the two channels
    over the tokens.
    """
    dtype = torch.promote_types(before.dtype, torch.float32)
    with torch.autocast(before.device.type, enabled=False):  # because 25,000 products are added at batch 128
        b, a = before.to(dtype), after.to(dtype)
        tokens = len(b) * processes()
        if center:
            b, a = (y - total(y.sum(0)) / tokens for y in (b, a))
        b_norm, a_norm = (total(y.square().sum(0)).sqrt() for y in (b, a))  # D
        C = total(b.T @ a) / (b_norm[:, None] * a_norm)  # (D, D)
        # the standard deviation is norm / sqrt(tokens - 1)
        return C * (tokens - 1) / tokens if center else C


def transformer(sizes: Sizes, switches: Switches, *, dropout: float) -> Captioner:
    """Build the model `transformer`: DIRL's network, trained only by the cross-entropy (Table 6)."""
    return Captioner(sizes, Interaction(sizes, switches, dropout), {}, dropout, switches)


def dirl(sizes: Sizes, switches: Switches, *, dropout: float, alpha: float) -> Captioner:
    """Build DIRL without the cross-modal contrast (Table 6). `alpha`: a weight in the loss L_dirl (Eq. 4)."""
    terms = {"dirl": ChannelCorrelation(sizes, alpha, switches, dropout)}
    return Captioner(sizes, Interaction(sizes, switches, dropout), terms, dropout, switches)


INTERACTION = DECODER | {"attention_dropout", "shared", "fusion_norm", "fusion_dropout"}
CORRELATION = frozenset(("center", "terms"))
TRANSFORMER = Entry(transformer, RELEASED_DIRL, INTERACTION)
DIRL = Entry(dirl, RELEASED_DIRL, INTERACTION | CORRELATION)
