"""The models by name. To add one: its file, its entry here, its settings in params.yaml."""

import inspect
from collections.abc import Callable
from typing import Any

from models import baselines, cbr, ccr, dirl, scorer, variants
from models.captioner import Captioner, Sizes

MODELS: dict[str, Callable[..., Captioner]] = {
    "subtraction": baselines.subtraction,
    "rr": scorer.rr,
    "scorer": scorer.scorer,
    "rr_cbr": cbr.rr_cbr,
    "scorer_cbr": cbr.scorer_cbr,
    "transformer": dirl.transformer,
    "dirl": dirl.dirl,
    "ccr": ccr.ccr,
    "dirl_ccr": ccr.dirl_ccr,
}
# whose program the variant `released` is, where not SCORER's
RELEASED = dict.fromkeys(("transformer", "dirl", "ccr", "dirl_ccr"), variants.RELEASED_DIRL)
# what every model's settings may hold beside its own, and what holds where they do not
SHARED = {"variant": "paper", "switches": {}}


def build(name: str, sizes: Sizes, settings: dict[str, Any]) -> Captioner:
    """The model of that name. Raises ValueError where there is none, or its settings are not `settings`.

    `settings` may name a variant and override single switches (switches.py); without them it is the
    paper's. The rest are the keyword arguments of the model's function in its file.
    """
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r}; there are {', '.join(MODELS)}")
    wanted = {
        key: parameter.annotation
        for key, parameter in inspect.signature(MODELS[name]).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    own = {key: value for key, value in settings.items() if key not in SHARED}
    _check(f"model.{name}", wanted, own)
    shared = SHARED | {key: value for key, value in settings.items() if key in SHARED}
    released = RELEASED.get(name, variants.RELEASED)
    chosen = variants.resolve(f"model.{name}", shared["variant"], shared["switches"], released)
    return MODELS[name](sizes, chosen, **own)


def _check(key: str, wanted: dict[str, type], own: dict[str, Any]) -> None:
    for name in own.keys() - wanted.keys():
        raise ValueError(f"unknown key {key}.{name}; it has {', '.join([*SHARED, *wanted])}")
    for name, kind in wanted.items():
        if name not in own:
            raise ValueError(f"the key {key}.{name} is missing; add it")
        if type(own[name]) not in ((int, float) if kind is float else (kind,)):
            raise ValueError(f"{key}.{name} must be a {kind.__name__}, not {own[name]!r}")
