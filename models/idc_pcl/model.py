"""IDC-PCL (Yao et al., AAAI 2022): pretrained on three tasks; captions by predicting masked words.

network.py: the network; pretraining.py: the pretraining phases; decoding.py: the decoder. Equations:
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
    """Captioner: predicts masked words from the pair and the words before them.

    Its `difference` is the whole network, which the decoder also uses.
    """

    decoder: MaskDecoder

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
            self.measures = ("judge_accuracy",)

    @property
    def terms(self) -> tuple[str, ...]:
        return ("cap", "judge") if self.measures else ("cap",)

    def losses_of(
        self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1, labels: Labels | None = None
    ) -> dict[str, Tensor]:
        """Return the cross-entropies of masked words and of the change judgement, for cells (B, N, C).

        `tokens`: R consecutive captions per pair, padded with NULL. `parts` has no effect. If processes share
        the batch, each returns its share. Without labels it is unknown which pairs changed.
        """
        (network,) = self.network
        kept, marks = network.over_images(network(before, after).memory)
        read, chosen = masked_words(tokens, self.share, network.mask)
        logits = network.output(network.over_words(read, kept, chosen)).float()
        summed = F.cross_entropy(logits, tokens[chosen], reduction="sum")
        found = {"cap": summed if self.reduction == "sum" else summed / total(chosen.sum())}
        if not self.measures:
            return found
        changed = labels.changed if labels else torch.full((len(before),), -1, device=before.device)
        return found | self.judged(marks, changed)

    def word_logits(self, tokens: Tensor, difference: Difference) -> Tensor:
        """Return each word's logits given the earlier words, read at a [MASK] after them, as in decoding.

        Captions (R*B, L+1) -> (R*B, L, V). Every word is a row of its own, so it costs L passes over words.
        """
        (network,) = self.network
        R, L = len(tokens), tokens.shape[1] - 1
        place = torch.arange(L + 1, device=tokens.device)
        word, last = place[None], place[:L, None]  # row t: the words 0..t, [MASK], padding
        read = torch.where(word <= last, tokens[:, None], NULL)  # (R*B, L, L+1)
        read = torch.where(word == last + 1, network.mask, read).flatten(0, 1)
        asked = (word == last + 1).expand(R, -1, -1).flatten(0, 1)
        kept, _ = network.over_images(difference.memory)
        return network.output(network.over_words(read, kept, asked)).float().unflatten(0, (R, L))

    def judged(self, marks: Tensor, changed: Tensor) -> dict[str, Tensor]:
        """Return loss and accuracy of telling changed from unchanged pairs by [IMG1] and [IMG2], (B, 2, D).

        Pairs with `changed` = -1 (unknown) are ignored.
        """
        logits = self.judge(marks.flatten(1)).float()
        known = total((changed >= 0).sum()).clamp(min=1)
        summed = F.cross_entropy(logits, changed, ignore_index=-1, reduction="sum")
        right = (logits.argmax(-1) == changed).sum() / known
        return {"judge": summed if self.reduction == "sum" else summed / known, "judge_accuracy": right}


def built(
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
    """Build the model of a phase: pretraining on CUB's single images, pretraining on pairs, or captioning."""
    if phase == "captioning":
        return MaskedCaptioner(sizes, switches, dropout, masked_words_captioning, coef_lr)
    shares, taus = (masked_words, masked_cells), (tau1, tau2)
    return Pretraining(sizes, switches, dropout, shares, taus, coef_lr, phase == "images")


def no_pretraining(
    sizes: PclSizes, switches: PclSwitches, *, dropout: float, masked_words_captioning: float, coef_lr: float
) -> Captioner:
    """Build the captioning without pretraining (Table 3)."""
    return MaskedCaptioner(sizes, switches, dropout, masked_words_captioning, coef_lr)


def filled(switches: PclSwitches) -> int:
    """Return the number of marks of a padded caption: <START>, <END> and [CLS] in the program, else 0."""
    return 3 if switches.length == "max_tokens" else 0


LATER = ("reduction", "distractor_judging", "barred")  # only in captioning
EARLIER = frozenset(("padding", "mvcl_negatives", "idle_gradients", "tasks", "extra_data"))
EVERY = frozenset(field.name for field in fields(PclSwitches))
NO_PRETRAINING = Entry(no_pretraining, RELEASED, EVERY - EARLIER, PclSizes, "idc_pcl", fills=filled)
IDC_PCL = Entry(
    partial(built, "captioning"),
    RELEASED,
    EVERY,
    PclSizes,
    "idc_pcl",
    phases=(
        EarlierPhase(
            "images",
            partial(built, "images"),
            "tasks",
            lambda switches: "cub" in switches.extra_data,
            "cub",
        ),
        EarlierPhase("pretrain", partial(built, "pretrain"), "tasks"),
    ),
    captioning=LATER,
    fills=filled,
)
