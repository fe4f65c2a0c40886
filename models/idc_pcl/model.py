"""IDC-PCL (Yao et al., AAAI 2022): pretraining on three tasks, and captioning by predicting masked words.

The network is in network.py, the pretraining in pretraining.py. Equations: docs/methods.md, "IDC-PCL".
At each decoding step, a [MASK] is appended to the caption, and a word is predicted there. A step computes
two tokens: the last word, whose keys and values are kept, and [MASK], whose keys and values are overwritten
in the next step.

B: pairs; k: captions per pair; R: captions of the pairs that are not finished; L: words; V: size of the
vocabulary; C: feature channels; N: cells of an image; M = 2(N + 1): image tokens of a pair; D: width;
h: heads; d = D/h.
"""

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import TransformerBlock, attention_weights
from models.common.captioner import NEVER, Captioner
from models.common.decoder import Past, TransformerState
from models.common.decoder_protocol import Difference, NextWord, Unweighed, Words
from models.common.distributed_batch import total
from models.common.entry import PLAIN, Entry, Layer, PretrainingPhase
from models.common.grid_embedding import GridCells
from models.common.packing import NULL, up_to_last
from models.common.trainable import Labels
from models.idc_pcl.network import Network, rates, word_attention
from models.idc_pcl.pretraining import IdcPclPretraining, masked_words, tasks_of
from models.idc_pcl.switches import RELEASED, PclSizes, PclSwitches


class MaskDecoder(Unweighed):
    """Decoder that predicts a word at the position of [MASK]."""

    compiles = False  # it has no tensors of its own

    def __init__(self, network: Network, longest: int):
        self.network, self.longest = network, longest

    def __call__(
        self, tokens: Tensor, difference: Difference, keep_layers: bool = False, padding_is_key: bool = True
    ) -> Words:
        """Predict the words of masked captions, (k*B, L), each at its own position; ignore the options."""
        x = self.network.over_words(tokens, self.network.over_images(difference.memory)[0])
        real = up_to_last(tokens)  # not of_captions: <END> may be masked
        return Words(self.network.output(x), x, real, real)

    def begin(self, difference: Difference, beam: int = 1) -> TransformerState:
        images, _ = self.network.over_images(difference.memory)
        return TransformerState([Past(*keys_values, self.longest, beam) for keys_values in images])

    def step(self, tokens: Tensor, position: int, state: TransformerState) -> NextWord:
        """Predict the next word of R captions at a [MASK] after `tokens`, (R,), and add these to `state`."""
        masks, state.words = torch.full_like(tokens, self.network.mask), position + 1
        x = self.network.cross.norm(self.network.text(torch.stack([tokens, masks], 1), position))
        for block, past in zip(self.network.cross.blocks, state.layers, strict=True):
            x, queries = step(block, x, past, position)
        return NextWord(self.network.output(x[:, 1]), queries)

    def maps(self, trace: Any, state: TransformerState) -> Tensor:
        """Return the last block's attention of [MASK] to both images' cells, added: (B, L, 1, N), sum 1."""
        before, after = state.layers[-1].memory_keys.chunk(2, 2)  # [IMG1] or [IMG2], then cells
        keys = torch.cat([before[:, :, 1:], after[:, :, 1:]], 2)
        first, second = attention_weights(state.queries(trace), keys).mean(1).chunk(2, -1)
        return state.one_map(first + second)


def step(block: TransformerBlock, x: Tensor, past: Past, position: int) -> tuple[Tensor, Tensor]:
    """Apply a block to a caption's last word and [MASK]: (R, 2, D) -> (R, 2, D), [MASK]'s queries (R, h, d).

    The last word does not see [MASK]. The keys and values of `x` are added to `past`.
    """
    attention, y = block.attention, block.norm_1(x)
    q = attention.queries(y)  # (R, h, 2, d)
    images = past.memory_keys[: past.left], past.memory_values[: past.left]
    heads = word_attention(q, images, past.append(*attention.keys_values(y), position))
    x = block.rest(x, attention.output(heads.transpose(1, 2).flatten(2)))
    return x, q[:, :, 1]


class MaskedCaptioner(Captioner):
    """Captioner that is trained to predict masked words.

    One network encodes the images and also decodes the captions. The network is the captioner's
    attribute `difference`. Other models have only an encoder of image pairs in this attribute.
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
        """Return the cross-entropies of masked words (`cap`) and of finding changed pairs (`judge`).

        before, after: cells of both images, (B, N, C) each
        tokens: k captions of each pair, (k*B, L), which are consecutive, padded with NULL
        labels: which pairs are changed; without labels, no pair counts for `judge`
        `parts` has no effect. If several processes share the batch, each returns its share.
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
        """Return each word's logits, given the words before it: (R*B, L+1) -> (R*B, L, V).

        As in decoding, [MASK] is put in place of the word to predict, after the earlier words.
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
        """Classify pairs by [IMG1] and [IMG2], (B, 2, D); `changed`, (B,): 1, 0, or -1 to ignore a pair."""
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
    return IdcPclPretraining(sizes, switches, dropout, shares, taus, coef_lr, phase == "images")


def no_pretraining(
    sizes: PclSizes, switches: PclSwitches, *, dropout: float, coef_lr: float, masked_words_captioning: float
) -> Captioner:
    return MaskedCaptioner(sizes, switches, dropout, masked_words_captioning, coef_lr)


def special_tokens(switches: PclSwitches) -> int:
    return 3 if switches.length == "max_tokens" else 0


def uses_cub(switches: PclSwitches) -> bool:
    return "cub" in switches.extra_data


# switches that concern only pretraining
EARLIER = frozenset(("padding", "mvcl_negatives", "idle_gradients", "tasks", "extra_data"))
EVERY = frozenset(field.name for field in fields(PclSwitches))
LAYER: Layer = {
    "settings": {
        "dropout": 0.2,
        "masked_words": 0.15,
        "masked_words_captioning": 0.15,
        "masked_cells": 0.15,
        "coef_lr": 1.0,
        "tau1": 1.0,
        "tau2": 1.0,
    },
    "sizes": {"width": 512, "heads": 8, "single": 1, "pair": 1, "pool": 2},
    "loss": {"lambda_judge": None},
    "images": {"learning_rate": 1e-4, "schedule": "noam"},
    "pretrain": {"learning_rate": 1e-4, "schedule": "noam"},
    "train": PLAIN | {"learning_rate": 3e-5, "schedule": "halves"},
}


def left_out(switches: PclSwitches, settings: Mapping[str, Any]) -> tuple[str, ...]:
    return () if switches.distractor_judging else ("judge",)


NO_PRETRAINING = Entry(
    no_pretraining,
    RELEASED,
    EVERY - EARLIER,
    PclSizes,
    "idc_pcl",
    fills=special_tokens,
    layer=LAYER,
    left_out=left_out,
)
IDC_PCL = Entry(
    partial(build, "captioning"),
    RELEASED,
    EVERY,
    PclSizes,
    "idc_pcl",
    pretraining=(
        PretrainingPhase(
            "images", partial(build, "images"), "tasks", uses_cub, "cub", partial(tasks_of, single=True)
        ),
        PretrainingPhase("pretrain", partial(build, "pretrain"), "tasks", tasks=tasks_of),
    ),
    captioning=("reduction", "distractor_judging", "barred"),
    fills=special_tokens,
    layer=LAYER,
    left_out=left_out,
)
