"""Switches: options in which a paper's equations, its released program and its ablations differ.

A variant of a model is a set of values of the switches. A model uses only some of the switches.
docs/methods.md, "Switches", lists all switches.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args, get_type_hints

Mtm = Literal["per_head", "summed", "single_head", "mean_pool", "max_pool"]
Fusion = Literal["cat", "sum", "hadamard", "respective"]


@dataclass(frozen=True)
class Switches:
    """Switches of SCORER (Tu et al., ICCV 2023), then those of DIRL.

    The comment above a switch names the equation that it concerns, and describes its values, separated by |.
    """

    # pair encoding (Eq. 1): true: cells have two more channels, x = 2j/W - 1 and y = 2i/H - 1
    coordinates: bool = False
    # matching (Eq. 2-3): TM in each head, averaged | TM of similarities that are summed over all heads | the
    # same, by the name that Fig. 3 uses | product of mean-pooled tokens | product of max-pooled tokens
    mtm: Mtm = "per_head"
    # contrast between views (Eq. 4): other pairs are negatives | the distance between the images of a pair,
    # without negatives (RR+, Fig. 13)
    contrast: Literal["infonce", "distance"] = "infonce"
    # contrast (Eq. 4): similarities are divided by the setting `temperature` | multiplied by exp(s), with a
    # learned s
    temperature: Literal["fixed", "learned"] = "fixed"
    # attention of reconstruction and decoder (Eq. 5, 8): true: W^O follows after the heads are concatenated
    attention_output: bool = True
    # reconstruction (Eq. 5): true: the setting `dropout` also applies to attention weights
    attention_dropout: bool = False
    # reconstruction and decoder (Eq. 6, 8): epsilon of the layer norms
    norm_epsilon: float = 1e-5
    # fusion of both images (Eq. 7, supplement): [b ; a] | b + a | b * a, each followed by a linear map and
    # ReLU | no fusion: the decoder attends to each image separately
    fusion: Fusion = "cat"
    # fusion (Eq. 7): true: the setting `dropout` also applies before the ReLU
    fusion_dropout: bool = False
    # feed-forward of a decoder layer (Eq. 8): LN(x + FFN(x)), with 4D hidden channels | LN(W2 u + u), where
    # u = GELU(W1 x) has D channels
    feed_forward: Literal["wide", "inner_residual"] = "wide"
    # word embedding (Eq. 8): the setting `dropout` applies before the layer norm | after the layer norm
    word_dropout: Literal["before_norm", "after_norm"] = "before_norm"
    # initial weights (the papers state none): Xavier's uniform, but the fusion (Eq. 7) starts as a map of the
    # difference, because its two halves are opposite | Xavier's uniform | the same, but query, key and value
    # of an attention count as one weight, and its biases are 0 (DIRL's program) | N(0, 0.02), biases 0
    # (SCORER's program) | torch's
    initialisation: Literal["xavier_opposed", "xavier", "xavier_joint", "normal", "torch"] = "xavier_opposed"
    # sentence vector of backward reasoning (before Eq. 9): mean of the states that predict words | sum of the
    # states of all tokens except padding, including <END>, divided by the length of the longest caption
    sentence: Literal["real", "padded"] = "real"
    # matrix of similarities from after to imagined images (Eq. 11): a separate matrix | the transpose of the
    # matrix from imagined to after images
    reverse: Literal["own", "transpose"] = "own"
    # backward reasoning (Eq. 10): true: its self-attention has biases
    cbr_bias: bool = True
    # backward reasoning: true: its parameters are trained; false: they keep their random values
    train_cbr: bool = True

    # from here on: DIRL (Tu et al., ECCV 2024) and its equation numbers
    # correlation (Eq. 3): true: channels are standardised first, and products divided by the number of tokens
    center: bool = False
    # loss (Eq. 4): both terms | only the first | only the second (Table 7)
    terms: Literal["both", "non_perturbation", "discrimination"] = "both"
    # shared part of the images (Eq. 5): `layers` blocks LN(x + dropout(attention)), as in the Transformer
    # that the paper cites | the output of one attention, as in the equation
    shared: Literal["layers", "attention"] = "layers"
    # fusion (Eq. 7): true: a layer norm follows the linear map
    fusion_norm: bool = False
    # inputs of the cross-modal contrast (Eq. 8-9): outputs of the decoder's attentions | these outputs after
    # residual and layer norm
    streams: Literal["attended", "normed"] = "attended"
    # averaging in the cross-modal contrast (Eq. 10-14): over words | over all positions of the longest
    # caption. In the second case padding is not a key of the decoder's self-attention, but <END> is
    pooled: Literal["real", "all"] = "real"
    # cross-modal contrast (Eq. 10-14): a cross-entropy for each direction | a single cross-entropy, of the
    # mean of both directions' similarities
    directions: Literal["each", "averaged"] = "each"
    # loss of the cross-modal contrast: mean over all decoder layers | only of the last layer
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
RELEASED_DIRL = Switches(  # DIRL's program for CLEVR-DC; for CLEVR-Change, some checkpoints have coordinates
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
# switches that concern every model with SCORER's decoder and pair encoding
DECODER = frozenset(
    ("coordinates", "attention_output", "norm_epsilon", "feed_forward", "word_dropout", "initialisation")
)
VARIANTS = ("paper", "released")


def resolve(key: str, variant: Any, overrides: Any, released: Any, names: frozenset[str]) -> Any:
    """Return the switches of a variant ("paper": the defaults; "released": `released`), then `overrides`.

    key: "model.<name>", for error messages; names: the switches that `overrides` may contain
    Raises ValueError, which names the key, if the variant, a switch or a value is not valid.
    """
    if not isinstance(variant, str) or variant not in VARIANTS:
        raise ValueError(f"{key}.variant must be {' or '.join(VARIANTS)}, not {variant!r}")
    if not isinstance(overrides, Mapping):
        raise ValueError(f"{key}.switches must map names of switches to values, not {overrides!r}")
    types = get_type_hints(type(released))
    for name, value in overrides.items():
        if name not in names:
            fault = "of other models is the key" if name in types else "unknown key"
            choices = ", ".join(switch for switch in types if switch in names)
            raise ValueError(f"{fault} {key}.switches.{name}; there are {choices}")
        _check(f"{key}.switches.{name}", types[name], value)
    return replace(released if variant == "released" else type(released)(), **overrides)


def _check(key: str, type_: Any, value: Any) -> None:
    if type_ is float:
        if type(value) not in (int, float) or not 0 < value < float("inf"):
            raise ValueError(f"{key} must be a positive number, not {value!r}")
        return
    choices = (True, False) if type_ is bool else get_args(type_)
    if type(value) is not type(choices[0]) or value not in choices:
        values = "true or false" if type_ is bool else " or ".join(choices)
        raise ValueError(f"{key} must be {values}, not {value!r}")
