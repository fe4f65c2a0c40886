"""DIRL and CCR (Tu et al., ECCV 2024), Eq. 2-14.

DIRL, distractors-immune representation learning (Eq. 2-7): a loss makes each channel of the before image
correlated with the same channel of the after image, and uncorrelated with the other channels. From each
image, the part that both images share is subtracted; the rest is the difference. The paper's F is the output
of our module `encoding`.

CCR, cross-modal contrastive regularisation (Eq. 8-14): a loss compares two vectors, the mean text state of a
caption and the mean result of the decoder's attention to the difference. It makes the vectors of the same
pair more similar than vectors of different pairs.

B: pairs of the batch; b: pairs of this process; N: cells of an image; L: words; D: width; h: heads; d = D/h.
"""

from typing import Any

import torch
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention, feed_forward
from models.common.captioner import Aligned, Captioner, Difference, PairMap, Reads, Regulariser, Sizes, Terms
from models.common.decoder_protocol import States, Words
from models.common.distributed_batch import join_processes, processes, total
from models.common.entry import Entry
from models.common.switches import DECODER, RELEASED_DIRL, Switches
from models.kernels.matching import Contrast, contrast


class SharedParts(nn.Module):
    """Parts of each image that both images share (Eq. 5)."""

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

    def shared(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the shared parts of two encoded images, (B, N, D) each.

        Two more results are the last layer's queries of the after image and keys of the before image,
        (B, h, N, d) each.
        """
        b, a = before, after
        for attention, norm in zip(self.attentions, self.norms, strict=True):
            b_queries, b_keys, b_values = attention.projections(b)  # (B, h, N, d)
            a_queries, a_keys, a_values = attention.projections(a)
            # Eq. 5: F^s; both directions start from the layer's inputs and use the same weights
            b_shared = attention.attend(b_queries, a_keys, a_values)  # (B, N, D)
            a_shared = attention.attend(a_queries, b_keys, b_values)
            b, a = self._next(norm, b, b_shared), self._next(norm, a, a_shared)
        return b, a, a_queries, b_keys

    def _next(self, norm: nn.Module, x: Tensor, shared: Tensor) -> Tensor:
        return norm(x + self.residual_dropout(shared)) if self.layered else shared


class Interaction(SharedParts):
    """DIRL's encoder of the difference: each image without the part that both images share (Eq. 5-7)."""

    def __init__(self, sizes: Sizes, switches: Switches, dropout: float):
        super().__init__(sizes, switches, dropout)
        D = sizes.width
        self.fuse = PairMap(D)
        self.norm = nn.LayerNorm(D) if switches.fusion_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout) if switches.fusion_dropout else nn.Identity()

    def forward(self, before: Tensor, after: Tensor) -> Aligned:
        """Compare two encoded images, (B, N, D) each; `memory` is their difference, (B, N, D)."""
        b, a, *queries_keys = self.shared(before, after)
        differences = torch.cat([before - b, after - a], -1)  # Eq. 6: F^d, (B, N, 2D)
        memory = torch.relu(self.dropout(self.norm(self.fuse(differences))))  # Eq. 7, (B, N, D)
        return Aligned(memory, before, after, *queries_keys)


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
    """Return the correlations of both images' channels: (tokens, D) each -> (D, D) (DIRL Eq. 3).

    It is over the tokens of all processes. Without `center`, it is the cosine of two channels. With `center`,
    it is the mean product of channels standardised to the mean 0 and the unbiased standard deviation 1.
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
    """Build DIRL without cross-modal contrast (Table 6); `alpha` weighs off-diagonal correlations (Eq. 4)."""
    terms = {"dirl": ChannelCorrelation(sizes, alpha, switches, dropout)}
    return Captioner(sizes, Interaction(sizes, switches, dropout), terms, dropout, switches)


INTERACTION = DECODER | {"attention_dropout", "shared", "fusion_norm", "fusion_dropout"}
CORRELATION = frozenset(("center", "terms"))
TRANSFORMER = Entry(transformer, RELEASED_DIRL, INTERACTION)
DIRL = Entry(
    dirl,
    RELEASED_DIRL,
    INTERACTION | CORRELATION,
    layer={"settings": {"alpha": 0.003}, "loss": {"lambda_dirl": None}},
)


class CrossModalContrast(Regulariser):
    """Loss L_ccr (DIRL Eq. 10-14), the mean over the decoder layers that the switch `ccr_layers` selects."""

    def __init__(self, temperature: float, switches: Switches):
        super().__init__()
        self.switches = switches
        self.contrast = Contrast(temperature, switches.temperature == "learned")

    def forward(self, pair: Difference, words: Words) -> Tensor:
        layers = words.layers if self.switches.ccr_layers == "every" else words.layers[-1:]
        return torch.stack([self.of_layer(states, words.real) for states in layers]).mean()

    def of_layer(self, states: States, real: Tensor) -> Tensor:
        """Return a decoder layer's loss; `real`, (captions, L), is true where a word is to predict."""
        with torch.autocast(real.device.type, enabled=False):  # in float32 at least
            text, visual = self.pooled(states, real)  # (b, D) each
            to_visual = text @ join_processes(visual).T  # (b, B): this process's captions, all differences
            to_text = visual @ join_processes(text).T  # (b, B): this process's differences, all captions
        if self.switches.directions == "averaged":
            return contrast((to_visual + to_text) / 2, self.contrast.temperature)
        return self.contrast(to_visual, to_text)  # L_t2v and L_v2t

    def pooled(self, states: States, real: Tensor) -> tuple[Tensor, Tensor]:
        """Return a text vector and a visual vector for each of the b captions, (b, D) each.

        They are means of the text states and of the difference features attended to. With the switch `pooled:
        real`, only positions with a word count, where `real`, (b, L), is true.
        """
        if self.switches.streams == "attended":
            streams = states.self_attended, states.cross_attended  # Eq. 8-9, (B, L, D)
        else:
            streams = states.self_normed, states.cross_normed
        averaged = real if self.switches.pooled == "real" else torch.ones_like(real)
        averaged = averaged.to(torch.promote_types(streams[0].dtype, torch.float32))
        weights = (averaged / averaged.sum(1, keepdim=True))[..., None]  # (B, L, 1)
        text, visual = ((weights * x).sum(1) for x in streams)  # float32 or wider, like the weights
        return text, visual

    def constrain(self) -> None:
        self.contrast.constrain()


def ccr(sizes: Sizes, switches: Switches, *, dropout: float, temperature: float) -> Captioner:
    """Build CCR: `transformer`, trained also with L_ccr, which has the temperature (Table 6, Eq. 10-14)."""
    terms = {"ccr": CrossModalContrast(temperature, switches)}
    return _captioner(sizes, switches, terms, dropout)


def dirl_ccr(
    sizes: Sizes, switches: Switches, *, dropout: float, alpha: float, temperature: float
) -> Captioner:
    """Build DIRL+CCR, the complete model of the paper; for `alpha` and `temperature` see `dirl` and `ccr`."""
    terms = {
        "dirl": ChannelCorrelation(sizes, alpha, switches, dropout),
        "ccr": CrossModalContrast(temperature, switches),
    }
    return _captioner(sizes, switches, terms, dropout)


def _captioner(sizes: Sizes, switches: Switches, terms: Terms, dropout: float) -> Captioner:
    # `pooled: all` averages over the positions of the longest caption of the data, not only of the batch
    reads: Reads = "padding" if switches.pooled == "all" else "words"
    difference = Interaction(sizes, switches, dropout)
    return Captioner(sizes, difference, terms, dropout, switches, keep_layers=True, reads=reads)


CONTRAST = frozenset(("temperature", "streams", "pooled", "directions", "ccr_layers"))
CCR = Entry(
    ccr,
    RELEASED_DIRL,
    INTERACTION | CONTRAST,
    layer={"settings": {"temperature": 0.5}, "loss": {"lambda_ccr": None}},
)
DIRL_CCR = Entry(
    dirl_ccr,
    RELEASED_DIRL,
    INTERACTION | CORRELATION | CONTRAST,
    layer={
        "settings": {"alpha": 0.003, "temperature": 0.5},
        "loss": {"lambda_dirl": None, "lambda_ccr": None},
    },
)
