"""CCR: cross-modal contrastive regularisation (Tu et al., ECCV 2024), Eq. 8-14.

The loss compares two vectors: the mean text state of a caption, and the mean result of the decoder's
attention to the difference. It makes the vectors of the same pair more similar than vectors of different
pairs.
B: pairs of the batch; b: pairs of this process; L: words; D: width.
"""

import torch
from torch import Tensor

from models.common.captioner import Captioner, Difference, Reads, Regulariser, Sizes, Terms
from models.common.decoder_protocol import States, Words
from models.common.distributed_batch import join_processes
from models.common.entry import Entry
from models.common.switches import RELEASED_DIRL, Switches
from models.dirl.model import CORRELATION, INTERACTION, ChannelCorrelation, Interaction
from models.kernels.matching import Contrast, contrast


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
        """Return the loss of one decoder layer. `real`, (captions, L), is true where a word is predicted."""
        with torch.autocast(real.device.type, enabled=False):  # in float32 at least
            text, visual = self.pooled(states, real)  # (b, D) each
            to_visual = text @ join_processes(visual).T  # (b, B): this process's captions, all differences
            to_text = visual @ join_processes(text).T  # (b, B): this process's differences, all captions
        if self.switches.directions == "averaged":
            return contrast((to_visual + to_text) / 2, self.contrast.temperature)
        return self.contrast(to_visual, to_text)  # L_t2v and L_v2t

    def pooled(self, states: States, real: Tensor) -> tuple[Tensor, Tensor]:
        """Return a text vector and a visual vector for each of the b captions, (b, D) each.

        The text vector is the mean of the caption's text states. The visual vector is the mean of the
        difference features to which its words attend. With the switch `pooled: real`, the means are over
        the positions with a word, where the mask `real`, (b, L), is true. Otherwise, they are over all L
        positions.
        """
        if self.switches.streams == "attended":
            streams = states.self_attended, states.cross_attended  # Eq. 8-9, (B, L, D)
        else:
            streams = states.self_normed, states.cross_normed
        averaged = real if self.switches.pooled == "real" else torch.ones_like(real)
        weights = (averaged / averaged.sum(1, keepdim=True))[..., None]  # (B, L, 1)
        text, visual = ((weights * x).sum(1) for x in streams)  # float32 or wider, like the weights
        return text, visual

    def constrain(self) -> None:
        self.contrast.constrain()


def ccr(sizes: Sizes, switches: Switches, *, dropout: float, temperature: float) -> Captioner:
    """Build CCR: the model `transformer` with the cross-modal contrastive loss (Table 6)."""
    terms = {"ccr": CrossModalContrast(temperature, switches)}
    return _captioner(sizes, switches, terms, dropout)


def dirl_ccr(
    sizes: Sizes, switches: Switches, *, dropout: float, alpha: float, temperature: float
) -> Captioner:
    """Build DIRL+CCR, the complete model of the paper.

    `alpha` is the weight of the correlations of different channels in the loss L_dirl (Eq. 4).
    `temperature` is that of the contrastive loss L_ccr.
    """
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
CCR = Entry(ccr, RELEASED_DIRL, INTERACTION | CONTRAST)
DIRL_CCR = Entry(dirl_ccr, RELEASED_DIRL, INTERACTION | CORRELATION | CONTRAST)
