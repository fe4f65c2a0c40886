"""The models by name. To add one: its file, its entry here, its settings in params.yaml."""

import inspect
from collections.abc import Callable
from typing import Any

from models import baselines, cbr, scorer
from models.captioner import Captioner, Sizes

MODELS: dict[str, Callable[..., Captioner]] = {
    "subtraction": baselines.subtraction,
    "rr": scorer.rr,
    "scorer": scorer.scorer,
    "rr_cbr": cbr.rr_cbr,
    "scorer_cbr": cbr.scorer_cbr,
}


def build(name: str, sizes: Sizes, settings: dict[str, Any]) -> Captioner:
    """The model of that name. Raises ValueError where there is none, or its settings are not `settings`."""
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r}; there are {', '.join(MODELS)}")
    wanted = {
        key: parameter.annotation
        for key, parameter in inspect.signature(MODELS[name]).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    for key in settings.keys() - wanted.keys():
        raise ValueError(f"unknown key model.{name}.{key}; it has {', '.join(wanted)}")
    for key, kind in wanted.items():
        if key not in settings:
            raise ValueError(f"the key model.{name}.{key} is missing; add it")
        if type(settings[key]) not in ((int, float) if kind is float else (kind,)):
            raise ValueError(f"model.{name}.{key} must be a {kind.__name__}, not {settings[key]!r}")
    return MODELS[name](sizes, **settings)
