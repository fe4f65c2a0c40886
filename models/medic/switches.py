"""Switches and sizes of MEDIC. docs/methods.md, "MEDIC", lists the switches."""

from dataclasses import dataclass, fields
from typing import Literal

from models.common.grid_embedding import Sizes
from models.common.switches import DECODER, RELEASED, Switches


@dataclass(frozen=True)
class MedicSizes(Sizes):
    """Sizes of MEDIC: those of DIRL or SCORER, and those of routers and memories."""

    multiples = (("width", "heads"), ("width", 2), ("word_width", 2))

    router: int  # hidden channels of a router
    slots: int  # slots of an expert's memory


@dataclass(frozen=True)
class MedicSwitches:
    """Switches of MEDIC. A default is the paper's value; the program's values are RELEASED_MEDIC.

    The comment above a switch describes its values, separated by |.
    """

    # pair encoding: true: cells have two more channels, x = 2j/W - 1 and y = 2i/H - 1
    coordinates: bool = False
    # gate in training: the change router's verdict opens it | only a verdict that agrees with the label opens
    # it. In decoding, the label has no effect, unless `decode.labelled_gate` is set
    gate: Literal["verdict", "label"] = "verdict"
    # mixture: true: it is multiplied by the change router's probability of its verdict
    confidence: bool = False
    # pairs of L_type: all changed pairs | only those whose verdict is right
    type_pairs: Literal["all", "routed"] = "all"
    # pairs of L_con: all | only those whose verdict is right
    consistency_pairs: Literal["all", "routed"] = "all"
    # L_con: a mean over the pairs of symmetric kinds plus a mean over those of asymmetric kinds | a sum over
    # kinds
    consistency_groups: Literal["two", "kinds"] = "two"
    # prototypes of L_dis: outputs of the experts for the pairs of their kind | the mixture
    prototypes: Literal["experts", "mixture"] = "experts"
    # kinds of change that have an expert: those of the setting `kinds` | always the five kinds of the CLEVR
    # datasets, and "no change"
    experts: Literal["dataset", "six"] = "dataset"
    # ablation, experts: key-value memories | maps W_2 ReLU(W_1 x)
    memory: Literal["slots", "mlp"] = "slots"
    # ablation, routers: of change and of kind | one router over all kinds and "no change", without a gate
    routers: Literal["two", "one"] = "two"
    # pairs of a scene: losses are computed for the first pairs, for the second pairs, ..., and averaged | all
    # pairs of the batch are in one call. Without several pairs per scene, this makes no difference
    calls: Literal["each", "one"] = "each"


RELEASED_MEDIC = {
    "gate": "label",
    "confidence": True,
    "type_pairs": "routed",
    "consistency_pairs": "routed",
    "consistency_groups": "kinds",
    "prototypes": "mixture",
    "experts": "six",
}


@dataclass(frozen=True)
class DirlMedicSwitches(MedicSwitches):
    """Switches of `dirl_medic`, in which both variants have DIRL as its program computes it."""

    # initial weights: the program's for CLEVR-DC and Spot-the-Diff, Xavier's | the program's for
    # CLEVR-Change, in which keys and values of a memory are orthonormal | ours: Xavier's, but the decoder's
    # input starts as a map of f_bef - f_aft (not published, for training on few pairs)
    first_weights: Literal["xavier", "orthonormal", "opposed"] = "xavier"


@dataclass(frozen=True)
class ScorerMedicSwitches(MedicSwitches, Switches):
    """Switches of `scorer_medic`: those of MEDIC and of SCORER."""


RELEASED_DIRL_MEDIC = DirlMedicSwitches(**RELEASED_MEDIC)  # type: ignore[arg-type]
_SCORER = {field.name: getattr(RELEASED, field.name) for field in fields(Switches)}
# SCORER's part is not released; this is SCORER's program with MEDIC's
RELEASED_SCORER_MEDIC = ScorerMedicSwitches(**_SCORER | RELEASED_MEDIC)

OF_MEDIC = frozenset(field.name for field in fields(MedicSwitches))
OF_DIRL_MEDIC = OF_MEDIC | {"first_weights"}
OF_SCORER_MEDIC = (
    OF_MEDIC
    | DECODER
    | {"attention_dropout", "fusion_dropout", "mtm", "contrast", "temperature"}
    | {"sentence", "reverse", "cbr_bias", "train_cbr"}
)
