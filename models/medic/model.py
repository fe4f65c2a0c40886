"""MEDIC behind DIRL and behind SCORER (Park, Oh, Kim, ECCV 2026).

The detector's features of both images are paired. Routers judge the paired features, and experts for the
kinds of change answer (routing.py). The caption decoder reads the features together with the answers.

The equations are in docs/methods.md, "MEDIC". B: pairs; N: cells of an image; D: width; K: kinds of change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention
from models.common.captioner import (
    DEVIATION,
    Captioner,
    Difference,
    Reads,
    Regulariser,
    initialise_as,
    initialise_xavier,
)
from models.common.decoder import CaptionDecoder
from models.common.entry import Entry, Layer
from models.common.grid_embedding import GridEmbedding
from models.common.packing import END, NULL
from models.common.switches import RELEASED_DIRL
from models.common.trainable import KINDS, Labels
from models.dirl.model import ChannelCorrelation, CrossModalContrast, SharedParts
from models.medic.experts import ExpertMemories
from models.medic.losses import ChangeClassification, KindClassification, MedicConsistency, MedicDisentangling
from models.medic.routing import NO_CHANGE, UNKNOWN, Routed, RoutedViews, Routing, experts_of
from models.medic.switches import (
    OF_DIRL_MEDIC,
    OF_SCORER_MEDIC,
    RELEASED_DIRL_MEDIC,
    RELEASED_SCORER_MEDIC,
    DirlMedicSwitches,
    MedicSizes,
    MedicSwitches,
    ScorerMedicSwitches,
)
from models.scorer.cbr import BackwardReasoning
from models.scorer.model import Reconstruction, between_views

DIRL = replace(RELEASED_DIRL, attention_dropout=True)  # DIRL in MEDIC's program, for both variants
UNKNOWN_WORD = 1  # <UNK>
PLACES = 0.1  # largest size of the initial position embeddings, with `first_weights: orthonormal`


class Fusion(nn.Module):
    """Memory of the decoder, Z = ReLU(drop(norm(W_z [F ; m] + b))), of each cell."""

    def __init__(self, width: int, norm: nn.Module, dropout: nn.Module):
        super().__init__()
        self.map, self.norm, self.dropout = nn.Linear(4 * width, width), norm, dropout

    def forward(self, paired: Tensor, mixture: Tensor) -> Tensor:
        """Return Z, (B, N, D), of F and m, (B, N, 2D) each."""
        joined = torch.cat([paired, mixture.to(paired.dtype)], -1)
        return torch.relu(self.dropout(self.norm(self.map(joined))))


class DirlMedic(SharedParts):
    """Encoder of the difference: DIRL's differences of both images, and MEDIC's routing."""

    compiles = False  # see Routing

    def __init__(self, sizes: MedicSizes, switches: MedicSwitches, experts: Sequence[str], dropout: float):
        super().__init__(sizes, DIRL, dropout)
        self.routing = Routing(sizes, switches, experts)
        self.fuse = Fusion(sizes.width, nn.LayerNorm(sizes.width), nn.Dropout(dropout))

    def forward(
        self, before: Tensor, after: Tensor, labels: Tensor | None = None, learns: bool = False
    ) -> Routed:
        """Compare two encoded images, (B, N, D) each. `labels`, `learns`: see Routing."""
        b, a, a_queries, b_keys = self.shared(before, after)
        paired = torch.cat([before - b, after - a], -1)  # F, (B, N, 2D)
        answer = self.routing(paired, labels, learns)
        memory = self.fuse(paired, answer.mixture)
        return Routed(memory, before, after, a_queries, b_keys, paired, **vars(answer))


class ScorerMedic(Reconstruction):
    """Encoder of the difference: SCORER's reconstructions of both images, and MEDIC's routing.

    The authors announced this model, but released only the one behind DIRL. That F consists of the
    reconstructions is our inference.
    """

    compiles = False  # see Routing

    def __init__(
        self, sizes: MedicSizes, switches: ScorerMedicSwitches, experts: Sequence[str], dropout: float
    ):
        super().__init__(sizes, switches, dropout)
        self.routing = Routing(sizes, switches, experts)
        drop = nn.Dropout(dropout) if switches.fusion_dropout else nn.Identity()
        self.fuse = Fusion(sizes.width, nn.Identity(), drop)

    def forward(
        self, before: Tensor, after: Tensor, labels: Tensor | None = None, learns: bool = False
    ) -> RoutedViews:
        """Compare two encoded images, (B, N, D) each. `labels`, `learns`: see Routing."""
        b, a, (a_queries, b_keys, *others) = self.reconstructed(before, after)
        paired = torch.cat([b, a], -1)  # F, (B, N, 2D)
        answer = self.routing(paired, labels, learns)
        memory = self.fuse(paired, answer.mixture)
        pair = Routed(memory, before, after, a_queries, b_keys, paired, **vars(answer))
        return RoutedViews(**vars(pair), before_queries=others[0], after_keys=others[1])


class MedicCaptioner(Captioner):
    """Captioner with MEDIC's routing. `experts`: the kinds that have an expert (routing.experts_of)."""

    never = (UNKNOWN_WORD,)
    ends = (NULL, END)  # the program's captions end at both

    def __init__(self, *arguments: Any, experts: tuple[str, ...], calls: str, **named: Any):
        super().__init__(*arguments, **named)
        self.kinds, self.one_call = experts, calls == "one"
        changes = [kind for kind in experts if kind != NO_CHANGE]
        numbers = {kind: number for number, kind in enumerate((*changes, NO_CHANGE)) if kind in experts}
        self.numbers = nn.Buffer(
            torch.tensor([numbers.get(kind, UNKNOWN) for kind in (*KINDS, "")]), persistent=False
        )

    def encode(self, before: Tensor, after: Tensor, labels: Labels | None = None) -> Difference:
        numbers = None if labels is None else self.numbers_of(labels)
        found: Difference = self.difference(self.encoding(before), self.encoding(after), numbers)
        return found

    def routed(self, difference: Routed) -> list[tuple[str, float]]:
        names = (*(kind for kind in self.kinds if kind != NO_CHANGE), NO_CHANGE)
        kinds, probabilities = difference.routed_kinds()
        pairs = zip(kinds.tolist(), probabilities.tolist(), strict=True)
        return [(names[kind], probability) for kind, probability in pairs]

    def compared(self, before: Tensor, after: Tensor, labels: Labels | None) -> Difference:
        found: Difference = self.difference(before, after, self.numbers_of(labels), learns=True)
        return found

    def losses_of(
        self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1, labels: Labels | None = None
    ) -> dict[str, Tensor]:
        return super().losses_of(before, after, tokens, 1 if self.one_call else parts, labels)

    def numbers_of(self, labels: Labels | None) -> Tensor:
        """Return the pairs' kinds as numbers of this model, (B,). Raises ValueError if one is unknown."""
        if labels is None or labels.kinds is None:
            raise ValueError("MEDIC needs the pairs' kinds (Labels.kinds)")
        numbers = self.numbers[labels.kinds]  # the number -1 of an unknown kind means the last entry
        if (numbers == UNKNOWN).any():
            raise ValueError(f"MEDIC needs a kind of {', '.join(self.kinds)} for each pair (Labels.kinds)")
        return numbers


def terms_of(switches: MedicSwitches, experts: tuple[str, ...]) -> dict[str, Regulariser]:
    """Return MEDIC's loss terms by name."""
    terms: dict[str, Regulariser] = {"cls": ChangeClassification()} if has_cls(switches, experts) else {}
    terms["type"] = KindClassification(switches)
    terms["con"] = MedicConsistency(switches, experts)
    return terms | {"dis": MedicDisentangling(switches)}


def has_cls(switches: MedicSwitches, experts: tuple[str, ...]) -> bool:
    """Return True if the model has a router of change, which L_cls trains."""
    return switches.routers != "one" and NO_CHANGE in experts


def left_out(switches: MedicSwitches, settings: Mapping[str, Any]) -> tuple[str, ...]:
    return () if has_cls(switches, experts_of(settings["kinds"], switches)) else ("cls",)


def dirl_medic(
    sizes: MedicSizes,
    switches: DirlMedicSwitches,
    *,
    dropout: float,
    alpha: float,
    temperature: float,
    kinds: list[str],
) -> Captioner:
    """Build DIRL+MEDIC, with an expert for each of `kinds`; `alpha` and `temperature` are DIRL's."""
    experts = experts_of(kinds, switches)
    terms = {
        "dirl": ChannelCorrelation(sizes, alpha, DIRL, dropout),
        "ccr": CrossModalContrast(temperature, DIRL),
    } | terms_of(switches, experts)
    model = MedicCaptioner(
        sizes,
        DirlMedic(sizes, switches, experts, dropout),
        terms,
        dropout,
        keep_layers=True,
        reads="padding",
        encoding=GridEmbedding(sizes.channels, sizes.width, sizes.grid, switches.coordinates),
        decoder=CaptionDecoder(sizes, dropout, DIRL),
        experts=experts,
        calls=switches.calls,
    )
    initialise_program(model, switches.first_weights)
    return model


@torch.no_grad()
def initialise_program(model: MedicCaptioner, kind: str) -> None:
    """Initialise all weights as the switch `first_weights` says, `kind`."""
    memories = {name: value.clone() for name, value in model.named_parameters() if value.dim() == 3}
    initialise_xavier(model, joint=True)
    for name, value in memories.items():  # initialised by their own modules
        model.get_parameter(name).copy_(value)
    table = model.decoder.embedding.weight  # type: ignore[attr-defined]
    bound = (6 / sum(table.shape)) ** 0.5
    table[NULL].uniform_(-bound, bound)  # drawn like the other rows, and never trained
    if kind == "orthonormal":
        initialise_detector(model)
    elif kind == "opposed":
        oppose(model.difference)


@torch.no_grad()
def oppose(difference: Any) -> None:
    """Let the decoder's input start as a map of f_bef - f_aft, and of m."""
    first, second, _, _ = difference.fuse.map.weight.chunk(4, 1)
    second.copy_(-first)


def initialise_detector(model: MedicCaptioner) -> None:
    """Initialise the detector as the program does for CLEVR-Change; the decoder and W_z are left out."""
    fuse = {id(module) for module in model.difference.fuse.modules()}  # type: ignore[union-attr]
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    joint = {id(map_) for each in attentions for map_ in (each.query, each.key, each.value)}
    for part in (model.encoding, model.difference, model.regularisers):
        for module in part.modules():
            if id(module) in fuse | joint:
                continue
            if isinstance(module, nn.Conv2d):
                module.weight.normal_(0.0, (2 / module.weight[0].numel()) ** 0.5)
            elif isinstance(module, nn.Linear):
                module.weight.normal_(0.0, DEVIATION)
            elif isinstance(module, nn.Embedding):
                module.weight.uniform_(-PLACES, PLACES)
            elif isinstance(module, ExpertMemories):
                for memory in (*module.keys, *module.values):
                    nn.init.orthogonal_(memory)
            if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
                module.bias.zero_()


def scorer_medic(
    sizes: MedicSizes,
    switches: ScorerMedicSwitches,
    *,
    dropout: float,
    temperature: float,
    kinds: list[str],
) -> Captioner:
    """Build SCORER+MEDIC, with CBR and an expert for each of `kinds`; `temperature` is SCORER's."""
    experts = experts_of(kinds, switches)
    terms = {
        "cv": between_views(temperature, switches),
        "cbr": BackwardReasoning(sizes, temperature, switches),
    } | terms_of(switches, experts)
    reads: Reads = "end" if switches.sentence == "padded" else "words"
    model = MedicCaptioner(
        sizes,
        ScorerMedic(sizes, switches, experts, dropout),
        terms,
        dropout,
        reads=reads,
        encoding=GridEmbedding(sizes.channels, sizes.width, sizes.grid, switches.coordinates),
        decoder=CaptionDecoder(sizes, dropout, switches),
        experts=experts,
        calls=switches.calls,
    )
    memories = {name: value.clone() for name, value in model.named_parameters() if value.dim() == 3}
    initialise_as(model, switches.initialisation)
    with torch.no_grad():
        for name, value in memories.items():
            model.get_parameter(name).copy_(value)
        if switches.initialisation == "xavier_opposed":
            oppose(model.difference)
    return model


# [M] gives 0.1, 0.01 and 0.1 for all datasets; DIRL's two terms have the same weights on all datasets
WEIGHTS = {"lambda_cls": 0.1, "lambda_type": 0.1, "lambda_con": 0.01, "lambda_dis": 0.1}


def layer_of(settings: Mapping[str, float], loss: Mapping[str, float | None]) -> Layer:
    """Return the layer of a model with MEDIC; `settings` and `loss` are those of the other paper."""
    return {
        "settings": {**settings, "kinds": [*KINDS]},
        "sizes": {"router": 512, "slots": 100},
        "loss": {**loss, **WEIGHTS},
        "train": {"schedule": "poly", "precision": "auto", "compile": "off"},
    }


DIRL_MEDIC = Entry(
    dirl_medic,
    RELEASED_DIRL_MEDIC,
    OF_DIRL_MEDIC,
    MedicSizes,
    "medic",
    layer=layer_of({"alpha": 0.003, "temperature": 0.5}, {"lambda_dirl": 0.03, "lambda_ccr": 0.05}),
    left_out=left_out,
)
SCORER_MEDIC = Entry(
    scorer_medic,
    RELEASED_SCORER_MEDIC,
    OF_SCORER_MEDIC,
    MedicSizes,
    "medic",
    layer=layer_of({"temperature": 0.5}, {"lambda_cv": None, "lambda_cbr": None}),
    left_out=left_out,
)
