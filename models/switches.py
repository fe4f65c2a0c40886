"""The named switches: between the papers' equations and the released programs, and the papers' ablations.

A variant is a set of values of these switches, not a second copy of a class: a module reads the
ones that concern it, and the others mean nothing to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_type_hints

Mtm = Literal["per_head", "summed", "single_head", "mean_pool", "max_pool"]
Fusion = Literal["cat", "sum", "hadamard", "respective"]


@dataclass(frozen=True)
class Switches:
    """The defaults are the papers'. Section numbers are SCORER's (Tu et al., ICCV 2023)."""

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
    # reconstruction (Eq. 6): epsilon of its layer norms
    norm_epsilon: float = 1e-5
    # fusion (Eq. 7, supplement) of what both images keep: [b ; a] | b + a | b * a, each through fc and ReLU
    # | none, the decoder attends to each image by itself
    fusion: Fusion = "cat"
    # fusion (Eq. 7): the setting `dropout` before the ReLU
    fusion_dropout: bool = False
    # decoder layer (Eq. 8): LN(x + FFN(x)), 4D wide | u = GELU(W1 x), LN(W2 u + u), D wide
    feed_forward: Literal["wide", "inner_residual"] = "wide"
    # first weights: Xavier's uniform of every weight of two or more dimensions (the paper states none; DIRL's
    # program has these) | N(0, 0.02) of every linear map and embedding, biases 0 | torch's own
    initialisation: Literal["xavier", "normal", "torch"] = "xavier"
    # backward reasoning (before Eq. 9): mean over the real words | over the longest caption's length
    sentence: Literal["real", "padded"] = "real"
    # backward reasoning (Eq. 11): the after-to-imagined matrix by itself | the other one's transpose
    reverse: Literal["own", "transpose"] = "own"
    # backward reasoning (Eq. 10): biases of its self-attention
    cbr_bias: bool = True
    # backward reasoning: its own parameters learn | stay the random ones that they were
    train_cbr: bool = True


PAPER = Switches()
RELEASED = Switches(
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
VARIANTS = {"paper": PAPER, "released": RELEASED}


def resolve(key: str, variant: Any, overrides: Any) -> Switches:
    """The switches of a variant, single ones overridden by name.

    Raises ValueError naming the key below `key` ("model.<name>") that is wrong.
    """
    if not isinstance(variant, str) or variant not in VARIANTS:
        raise ValueError(f"{key}.variant must be {' or '.join(VARIANTS)}, not {variant!r}")
    if not isinstance(overrides, Mapping):
        raise ValueError(f"{key}.switches must map names of switches to values, not {overrides!r}")
    kinds = get_type_hints(Switches)
    for name, value in overrides.items():
        if name not in kinds:
            known = ", ".join(field.name for field in fields(Switches))
            raise ValueError(f"unknown key {key}.switches.{name}; there are {known}")
        _check(f"{key}.switches.{name}", kinds[name], value)
    return replace(VARIANTS[variant], **overrides)


def _check(key: str, kind: Any, value: Any) -> None:
    if kind is float:
        if type(value) not in (int, float) or not 0 < value < float("inf"):
            raise ValueError(f"{key} must be a positive number, not {value!r}")
        return
    choices = (True, False) if kind is bool else get_args(kind)
    if type(value) is not type(choices[0]) or value not in choices:
        shown = "true or false" if kind is bool else " or ".join(choices)
        raise ValueError(f"{key} must be {shown}, not {value!r}")
