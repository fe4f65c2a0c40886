"""SCORER: self-supervised cross-view representation reconstruction (Tu et al., ICCV 2023), section 3.2.

B: pairs of the batch; b: pairs of this process; N: cells of an image; D: width; h: heads; d = D/h.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention
from models.common.captioner import Aligned, Captioner, PairMap, Reads, Regulariser, Sizes, Terms
from models.common.decoder_protocol import Words
from models.common.distributed_batch import processes
from models.common.entry import Entry
from models.common.switches import DECODER, RELEASED, Switches
from models.kernels.matching import Contrast, matching, partner_matching

JOINED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # how Eq. 7 joins both images, (B, N, D) each
    "cat": lambda before, after: torch.cat([before, after], -1),  # (B, N, 2D)
    "sum": torch.add,
    "hadamard": torch.mul,
}


@dataclass
class CrossView(Aligned):
    """Difference of an image pair, with queries and keys of both images for the matching.

    The queries of the after image and the keys of the before image are fields of the base class
    Aligned. Queries and keys, (B, h, N, d) each, are those of the last layer.
    """

    before_queries: Tensor
    after_keys: Tensor


class Reconstruction(nn.Module):
    """Reconstruction of each image from the other image, so that only unchanged content remains (Eq. 5-6)."""

    def __init__(self, sizes: Sizes, switches: Switches, dropout: float):
        super().__init__()
        D = sizes.width
        weight_dropout = dropout if switches.attention_dropout else 0.0
        self.attentions: Any = nn.ModuleList(
            MultiHeadAttention(D, sizes.heads, weight_dropout, output=switches.attention_output)
            for _ in range(sizes.layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(D, switches.norm_epsilon) for _ in range(sizes.layers))

    def reconstructed(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Return the reconstructions of two encoded images, (B, N, D) each.

        The third result has queries and keys of the last layer, (B, h, N, d) each, in the order of the fields
        of CrossView.
        """
        b, a = before, after
        for attention, norm in zip(self.attentions, self.norms, strict=True):
            b_queries, b_keys, b_values = attention.projections(b)  # (B, h, N, d)
            a_queries, a_keys, a_values = attention.projections(a)
            # Eq. 5: both directions start from the layer's inputs; Eq. 6: the common part of the images
            b = norm(b + attention.attend(b_queries, a_keys, a_values))  # (B, N, D)
            a = norm(a + attention.attend(a_queries, b_keys, b_values))
        return b, a, (a_queries, b_keys, b_queries, a_keys)


class Scorer(Reconstruction):
    """SCORER's encoder of the difference (Eq. 5-7): both reconstructions, fused."""

    def __init__(self, sizes: Sizes, switches: Switches, dropout: float):
        super().__init__(sizes, switches, dropout)
        D = sizes.width
        self.fusion = switches.fusion
        if self.fusion in JOINED:
            self.fuse = PairMap(D) if self.fusion == "cat" else nn.Linear(D, D)
        self.dropout = nn.Dropout(dropout) if switches.fusion_dropout else nn.Identity()

    def forward(self, before: Tensor, after: Tensor) -> CrossView:
        """Compare two encoded images, (B, N, D) each; `memory` is their fused difference."""
        b, a, queries_keys = self.reconstructed(before, after)
        return CrossView(self.fused(b, a), before, after, *queries_keys)

    def fused(self, before: Tensor, after: Tensor) -> Tensor:
        """Return X_c = ReLU(fc([X^c_bef ; X^c_aft])) (Eq. 7); with `fusion: respective`, both, (B, 2N, D)."""
        if self.fusion == "respective":
            return torch.cat([before, after], 1)
        return torch.relu(self.dropout(self.fuse(JOINED[self.fusion](before, after))))


class ViewInvariance(Regulariser):
    """Loss L_cv (SCORER Eq. 4): the images of a pair must match better than images of different pairs."""

    def __init__(self, temperature: float, switches: Switches):
        super().__init__()
        self.mtm = switches.mtm
        self.contrast = Contrast(temperature, switches.temperature == "learned")

    def forward(self, pair: CrossView, words: Words) -> Tensor:
        # negatives are the other pairs of the batch, including those of other processes
        before_to_after = matching(pair.before_queries, pair.after_keys, self.mtm)  # (b, B)
        after_to_before = matching(pair.after_queries, pair.before_keys, self.mtm)
        return self.contrast(before_to_after, after_to_before)

    def constrain(self) -> None:
        self.contrast.constrain()


class ViewDistance(Regulariser):
    """Loss L_cv of RR+ (SCORER supplement, Fig. 13): (1/B) sum_k (1 - S_kk), without negatives.

    S_kk is the matching of the two images of pair k, as a mean of both directions. The matching uses cosines:
    with the dot products of Eq. 2 and without negatives, queries and keys would grow without bound.
    """

    def __init__(self, switches: Switches):
        super().__init__()
        self.mtm = switches.mtm

    def forward(self, pair: CrossView, words: Words) -> Tensor:
        before_to_after = partner_matching(pair.before_queries, pair.after_keys, self.mtm)  # (b,)
        after_to_before = partner_matching(pair.after_queries, pair.before_keys, self.mtm)
        return (1 - (before_to_after + after_to_before) / 2).mean() / processes()


def between_views(temperature: float, switches: Switches) -> ViewInvariance | ViewDistance:
    """Build the loss L_cv that the switch `contrast` names."""
    if switches.contrast == "distance":
        return ViewDistance(switches)
    return ViewInvariance(temperature, switches)


def captioner(sizes: Sizes, switches: Switches, dropout: float, terms: Terms) -> Captioner:
    """Build a captioner with SCORER's encoder and decoder, and with the loss terms `terms`."""
    difference, respective = Scorer(sizes, switches, dropout), switches.fusion == "respective"
    reads: Reads = "end" if "cbr" in terms and switches.sentence == "padded" else "words"
    return Captioner(sizes, difference, terms, dropout, switches, respective=respective, reads=reads)


def rr(sizes: Sizes, switches: Switches, *, dropout: float) -> Captioner:
    """Build RR: SCORER's representation reconstruction without the contrast L_cv (Table 6)."""
    return captioner(sizes, switches, dropout, {})


def scorer(sizes: Sizes, switches: Switches, *, dropout: float, temperature: float) -> Captioner:
    """Build SCORER without backward reasoning (Table 6)."""
    return captioner(sizes, switches, dropout, {"cv": between_views(temperature, switches)})


RECONSTRUCTION = DECODER | {"attention_dropout", "fusion", "fusion_dropout"}
VIEWS = frozenset(("mtm", "contrast", "temperature"))
TEMPERATURE = {"temperature": 0.5}
RR = Entry(rr, RELEASED, RECONSTRUCTION)
SCORER = Entry(
    scorer,
    RELEASED,
    RECONSTRUCTION | VIEWS,
    layer={"settings": TEMPERATURE, "loss": {"lambda_cv": None}},
)
