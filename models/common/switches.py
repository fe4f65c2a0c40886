"""The named switches: between the papers' equations and the released programs, and the papers' ablations.

A variant is a set of values of these switches, not a second copy of a class: a module reads the
ones that concern it, and the others mean nothing to it. All of them in a table: docs/methods.md, "Switches".
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Mtm = Literal["per_head", "summed", "single_head", "mean_pool", "max_pool"]
Fusion = Literal["cat", "sum", "hadamard", "respective"]


@dataclass(frozen=True)
class Switches:
    """The defaults are the papers'. Equation numbers: SCORER's (Tu et al., ICCV 2023), then DIRL's."""

    # pair encoding (Eq. 1): two channels more, x = 2j/W - 1 and y = 2i/H - 1
    coordinates: bool = False
    # matching (Eq. 2-3): TM in each head and the heads' mean | max of one product over all heads; for Fig. 3
    # the same by the figure's name | one vector an image, its tokens' mean | their maximum
    mtm: Mtm = "per_head"
    # contrast between views (Eq. 4): other pairs are negatives | a pair's own distance alone (RR+, Fig. 13)
    contrast: Literal["infonce", "distance"] = "infonce"
    # contrast (Eq. 4): divided by the setting `temperature` | multiplied by exp(s), s learned
    temperature: Literal["fixed", "learned"] = "fixed"
    # attention of reconstruction and decoder (Eq. 5, 8): W^O after the heads are joined
    attention_output: bool = True
    # reconstruction (Eq. 5): the setting `dropout` on attention weights
    attention_dropout: bool = False
    # reconstruction and decoder (Eq. 6, 8): epsilon of their layer norms
    norm_epsilon: float = 1e-5
    # fusion (Eq. 7, supplement) of what both images keep: [b ; a] | b + a | b * a, each through fc and ReLU
    # | none, the decoder attends to each image by itself
    fusion: Fusion = "cat"
    # fusion (Eq. 7): the setting `dropout` before the ReLU
    fusion_dropout: bool = False
    # decoder layer (Eq. 8): LN(x + FFN(x)), 4D wide | u = GELU(W1 x), LN(W2 u + u), D wide
    feed_forward: Literal["wide", "inner_residual"] = "wide"
    # word embedding (Eq. 8): the setting `dropout` before its layer norm | after it
    word_dropout: Literal["before_norm", "after_norm"] = "before_norm"
    # first weights (the papers state none): Xavier's uniform of every weight of two or more dimensions, both
    # halves of the fusion (Eq. 7) opposite, so that it begins as a difference | the halves each by itself
    # | that, an attention's query, key and value being one weight, and its biases 0 (DIRL's program)
    # | N(0, 0.02) of every linear map and embedding, biases 0 (SCORER's) | torch's own
    initialisation: Literal["xavier_opposed", "xavier", "xavier_joint", "normal", "torch"] = "xavier_opposed"
    # backward reasoning (before Eq. 9): the mean of the states that predict the real words | the sum of those
    # of every token that is not padding, <END>'s too, divided by the longest caption's length
    sentence: Literal["real", "padded"] = "real"
    # backward reasoning (Eq. 11): the after-to-imagined matrix by itself | the other one's transpose
    reverse: Literal["own", "transpose"] = "own"
    # backward reasoning (Eq. 10): biases of its self-attention
    cbr_bias: bool = True
    # backward reasoning: its own parameters learn | stay the random ones that they were
    train_cbr: bool = True

    # DIRL (Tu et al., ECCV 2024), whose equation numbers follow
    # correlation (Eq. 3): each channel standardised first, the products divided by the number of tokens
    center: bool = False
    # its loss (Eq. 4): both terms | one of them alone (Table 7)
    terms: Literal["both", "non_perturbation", "discrimination"] = "both"
    # what images share (Eq. 5): `layers` of LN(x + dropout(attention)), the Transformer's block that the
    # paper cites | one attention's output by itself, as the equation is written
    shared: Literal["layers", "attention"] = "layers"
    # fusion (Eq. 7): a layer norm after the linear map
    fusion_norm: bool = False
    # cross-modal contrast (Eq. 8-9): the attentions' outputs | the streams after residual and layer norm
    streams: Literal["attended", "normed"] = "attended"
    # cross-modal contrast (Eq. 10-14): mean over the real words | over all positions of the longest caption,
    # where padding is no key of the decoder's self-attention (but <END> is)
    pooled: Literal["real", "all"] = "real"
    # cross-modal contrast (Eq. 10-14): a cross-entropy each way | one, of the mean of both ways' matrices
    directions: Literal["each", "averaged"] = "each"
    # cross-modal contrast: mean over the decoder's layers | the last one's
    ccr_layers: Literal["every", "last"] = "every"


PAPER = Switches()
RELEASED = Switches(  # SCORER's program
    coordinates=True,
    mtm="summed",
    temperature="learned",
    attention_output=False,
    attention_dropout=True,
    norm_epsilon=1e-6,
    fusion_dropout=True,
    feed_forward="inner_residual",
    initialisation="normal",
    sentence="padded",
    reverse="transpose",
    cbr_bias=False,
    train_cbr=False,
)
RELEASED_DIRL = Switches(  # of its CLEVR-DC configuration; a CLEVR-Change checkpoint may have coordinates
    fusion_dropout=True,
    word_dropout="after_norm",
    initialisation="xavier_joint",
    center=True,
    fusion_norm=True,
    streams="normed",
    pooled="all",
    directions="averaged",
    ccr_layers="last",
)
# those that concern every model made of SCORER's decoder and pair encoding
DECODER = frozenset(
    ("coordinates", "attention_output", "norm_epsilon", "feed_forward", "word_dropout", "initialisation")
)
VARIANTS = ("paper", "released")
Kind = TypeVar("Kind", bound="DataclassInstance")


def resolve(key: str, variant: Any, overrides: Any, released: Kind, concerning: frozenset[str]) -> Kind:
    """The switches of a variant, single ones overridden by name; `released` are those of the model's program.

    The paper's are the defaults of their class. `concerning`: the names of those that make a difference.
    Raises ValueError naming the key below `key` ("model.<name>") that is wrong.
    """
    if not isinstance(variant, str) or variant not in VARIANTS:
        raise ValueError(f"{key}.variant must be {' or '.join(VARIANTS)}, not {variant!r}")
    if not isinstance(overrides, Mapping):
        raise ValueError(f"{key}.switches must map names of switches to values, not {overrides!r}")
    kinds = get_type_hints(type(released))
    for name, value in overrides.items():
        if name not in concerning:
            fault = "of other models is the key" if name in kinds else "unknown key"
            known = ", ".join(each for each in kinds if each in concerning)
            raise ValueError(f"{fault} {key}.switches.{name}; there are {known}")
        _check(f"{key}.switches.{name}", kinds[name], value)
    return replace(released if variant == "released" else type(released)(), **overrides)


def _check(key: str, kind: Any, value: Any) -> None:
    if kind is float:
        if type(value) not in (int, float) or not 0 < value < float("inf"):
            raise ValueError(f"{key} must be a positive number, not {value!r}")
        return
    choices = (True, False) if kind is bool else get_args(kind)
    if type(value) is not type(choices[0]) or value not in choices:
        shown = "true or false" if kind is bool else " or ".join(choices)
        raise ValueError(f"{key} must be {shown}, not {value!r}")
