"""IDC-PCL (Yao et al., AAAI 2022): pretraining on three tasks, and captioning by predicting masked words.

The network is in network.py, the pretraining in pretraining.py, the decoder in decoding.py. Equations:
docs/methods.md, "IDC-PCL". B: pairs; C: feature channels; N: cells of an image; D: width; L: words; R:
captions per pair; V: size of the vocabulary.
"""

from dataclasses import fields
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.captioner import NEVER, Captioner
from models.common.decoder import NULL
from models.common.decoder_protocol import Difference
from models.common.distributed_batch import total
from models.common.entry import EarlierPhase, Entry
from models.common.grid_embedding import GridCells
from models.common.trainable import Labels
from models.idc_pcl.decoding import MaskDecoder
from models.idc_pcl.network import Network, rates
from models.idc_pcl.pretraining import Pretraining, masked_words
from models.idc_pcl.switches import RELEASED, PclSizes, PclSwitches


class MaskedCaptioner(Captioner):
    """Captioner that is trained to predict masked words.

    One network encodes the images and also decodes the captions. It is the module `difference`.
    """

    decoder: MaskDecoder
    terms: tuple[str, ...] = ("cap",)

    def __init__(self, sizes: PclSizes, switches: PclSwitches, dropout: float, share: float, coef: float):
        network = Network(sizes, switches, dropout)
        decoder: Any = MaskDecoder(network, sizes.longest)
        super().__init__(sizes, network, {}, dropout, encoding=GridCells(pool=sizes.pool), decoder=decoder)
        self.network = (network,)  # in a tuple, so that torch does not register its tensors twice
        self.share, self.reduction = share, switches.reduction
        self.cells, self.takes = sizes.cells, {"difference.": "difference."}
        self.groups = rates(coef)
        marks = (*NEVER, network.mask, network.cls) if switches.softmax == "all" else NEVER
        self.never = () if switches.barred == "none" else marks
        if switches.distractor_judging:
            self.judge = nn.Linear(2 * sizes.width, 2)
            self.terms, self.measures = ("cap", "judge"), ("judge_accuracy",)

    def losses_of(
        self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1, labels: Labels | None = None
    ) -> dict[str, Tensor]:
        """Return the cross-entropies of masked words (`cap`) and of a classifier of changed pairs (`judge`).

        before, after: cells of both images, (B, N, C) each
        tokens: R consecutive captions of each pair, padded with NULL
        parts: has no effect
        labels: which pairs are changed; without labels, no pair counts for `judge`

        If several processes share the batch, each returns its share.
        """
        (network,) = self.network
        images, marks = network.over_images(network(before, after).memory)
        read, chosen = masked_words(tokens, self.share, network.mask)
        logits = network.output(network.over_words(read, images, chosen)).float()
        summed = F.cross_entropy(logits, tokens[chosen], reduction="sum")
        losses = {"cap": summed if self.reduction == "sum" else summed / total(chosen.sum())}
        if self.measures:
            changed = labels.changed if labels else torch.full((len(before),), -1, device=before.device)
            losses |= self.judged(marks, changed)
        return losses

    def word_logits(self, tokens: Tensor, difference: Difference) -> Tensor:
        """Return logits for every word of captions, each predicted from the words before it: (R*B, L, V).

        `tokens` are the captions, (R*B, L+1): R captions for each of B pairs. To predict a word, [MASK] is
        put in its place, after the earlier words. Decoding predicts words in the same way.
        """
        (network,) = self.network
        R, L = len(tokens), tokens.shape[1] - 1
        index = torch.arange(L + 1, device=tokens.device)
        word, last = index[None], index[:L, None]  # row t: the words 0..t, [MASK], padding
        read = torch.where(word <= last, tokens[:, None], NULL)  # (R*B, L, L+1)
        read = torch.where(word == last + 1, network.mask, read).flatten(0, 1)
        masked = (word == last + 1).expand(R, -1, -1).flatten(0, 1)
        images, _ = network.over_images(difference.memory)
        return network.output(network.over_words(read, images, masked)).float().unflatten(0, (R, L))

    def judged(self, marks: Tensor, changed: Tensor) -> dict[str, Tensor]:
        """Return loss and accuracy of the classifier that finds changed pairs.

        marks: (B, 2, D), input of the classifier: the outputs at [IMG1] and [IMG2]
        changed: (B,), 1 changed, 0 unchanged, -1 unknown; unknown pairs are ignored
        """
        logits = self.judge(marks.flatten(1)).float()
        count = total((changed >= 0).sum()).clamp(min=1)
        summed = F.cross_entropy(logits, changed, ignore_index=-1, reduction="sum")
        accuracy = (logits.argmax(-1) == changed).sum() / count
        return {"judge": summed if self.reduction == "sum" else summed / count, "judge_accuracy": accuracy}


def build(
    phase: Literal["images", "pretrain", "captioning"],
    sizes: PclSizes,
    switches: PclSwitches,
    *,
    dropout: float,
    masked_words: float,
    masked_words_captioning: float,
    masked_cells: float,
    coef_lr: float,
    tau1: float,
    tau2: float,
) -> Any:
    """Build the model of `phase`: pretraining on CUB's single images, pretraining on pairs, or captioning."""
    if phase == "captioning":
        return MaskedCaptioner(sizes, switches, dropout, masked_words_captioning, coef_lr)
    shares, taus = (masked_words, masked_cells), (tau1, tau2)
    return Pretraining(sizes, switches, dropout, shares, taus, coef_lr, phase == "images")


def no_pretraining(
    sizes: PclSizes, switches: PclSwitches, *, dropout: float, masked_words_captioning: float, coef_lr: float
) -> Captioner:
    """Build the captioner for training without pretraining (Table 3)."""
    return MaskedCaptioner(sizes, switches, dropout, masked_words_captioning, coef_lr)


def special_tokens(switches: PclSwitches) -> int:
    """Return the number of special tokens in a caption if captions are padded to `max_tokens`, else 0.

    The number is 3, for <START>, <END> and [CLS]. The result is 0 if captions are padded to the longest
    training caption.
    """
    return 3 if switches.length == "max_tokens" else 0


def uses_cub(switches: PclSwitches) -> bool:
    """Return True if the model has the phase on CUB."""
    return "cub" in switches.extra_data


# switches that concern only pretraining
EARLIER = frozenset(("padding", "mvcl_negatives", "idle_gradients", "tasks", "extra_data"))
EVERY = frozenset(field.name for field in fields(PclSwitches))
NO_PRETRAINING = Entry(no_pretraining, RELEASED, EVERY - EARLIER, PclSizes, "idc_pcl", fills=special_tokens)
IDC_PCL = Entry(
    partial(build, "captioning"),
    RELEASED,
    EVERY,
    PclSizes,
    "idc_pcl",
    phases=(
        EarlierPhase("images", partial(build, "images"), "tasks", uses_cub, "cub"),
        EarlierPhase("pretrain", partial(build, "pretrain"), "tasks"),
    ),
    captioning=("reduction", "distractor_judging", "barred"),
    fills=special_tokens,
)
