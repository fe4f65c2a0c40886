"""All models, by name.

To add a model, write a module with an Entry, add the Entry to MODELS, and its settings to params.yaml.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_origin

from models.card import model as card
from models.clip4idc import model as clip_models
from models.common import switches
from models.common.entry import GRID as GRID
from models.common.entry import PIXELS as PIXELS
from models.common.entry import Entry
from models.common.grid_embedding import DataSizes
from models.common.grid_embedding import Sizes as Sizes
from models.dirl import model as dirl
from models.duda import model as duda
from models.idc_pcl import model as pcl_models
from models.mccformers import model as mccformers
from models.medic import model as medic
from models.scorer import cbr, subtraction
from models.scorer import model as scorer
from models.vard import model as vard

MODELS: dict[str, Entry] = {
    "subtraction": subtraction.SUBTRACTION,
    "rr": scorer.RR,
    "scorer": scorer.SCORER,
    "rr_cbr": cbr.RR_CBR,
    "scorer_cbr": cbr.SCORER_CBR,
    "transformer": dirl.TRANSFORMER,
    "dirl": dirl.DIRL,
    "ccr": dirl.CCR,
    "dirl_ccr": dirl.DIRL_CCR,
    "clip_ft": clip_models.CLIP_FT,
    "clip4idc_no_adapt": clip_models.NO_ADAPT,
    "clip4idc": clip_models.CLIP4IDC,
    "idc_pcl_no_pretrain": pcl_models.NO_PRETRAINING,
    "idc_pcl": pcl_models.IDC_PCL,
    "duda": duda.DUDA,
    "vard": vard.VARD,
    "vard_transformer": vard.VARD_TRANSFORMER,
    "mccformers_d": mccformers.MCCFORMERS_D,
    "mccformers_s": mccformers.MCCFORMERS_S,
    "card": card.CARD,
    "dirl_medic": medic.DIRL_MEDIC,
    "scorer_medic": medic.SCORER_MEDIC,
}
# settings that every model has, with their defaults
SHARED = {"variant": "paper", "switches": {}}


def entry_of(name: str) -> Entry:
    """Return the Entry of a model. Raises ValueError if there is no model of that name."""
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r}; models/__init__.py has {', '.join(MODELS)}")
    return MODELS[name]


def build(name: str, sizes: DataSizes, settings: Mapping[str, Any], phase: str | None = None) -> Any:
    """Build a captioning model (a Captioner), or with `phase` the model of a pretraining phase (a Trainable).

    settings: keyword arguments of the model's build function; optionally `variant` (a name) and `switches`
        (values that replace those of the variant)
    Raises ValueError if there is no such model or phase, or if a setting is not valid for the model.
    """
    entry = entry_of(name)
    declaration = entry if phase is None else entry.phase(phase)
    if declaration is None:
        raise ValueError(f"{name!r} has no pre-training phase {phase!r}")
    arguments = {key: value for key, value in settings.items() if key not in SHARED}
    _check(f"model.{name}", _types(declaration.build), arguments)
    return declaration.build(sizes, switches_of(name, settings), **arguments)


def settings_of(name: str) -> list[str]:
    """Return the names of a model's settings, in the order in which its build function has them."""
    return [*SHARED, *_types(entry_of(name).build)]


def check(name: str, settings: Mapping[str, Any]) -> None:
    """Raise ValueError if a setting of a model is missing, is unknown, or has a wrong type."""
    types = _types(entry_of(name).build)
    _check(f"model.{name}", types, {key: value for key, value in settings.items() if key not in SHARED})


@cache
def _types(build: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(build).parameters.values()
    return {each.name: each.annotation for each in parameters if each.kind is each.KEYWORD_ONLY}


def switches_of(name: str, settings: Mapping[str, Any]) -> Any:
    """Return the switches of the variant that `settings` chooses, with its overrides, or raise ValueError."""
    entry, shared = entry_of(name), {**SHARED, **settings}
    variant, overrides = shared["variant"], shared["switches"]
    return switches.resolve(f"model.{name}", variant, overrides, entry.released, entry.switches)


def _check(key: str, types: dict[str, type], arguments: dict[str, Any]) -> None:
    for name in arguments.keys() - types.keys():
        raise ValueError(f"unknown key {key}.{name}; it has {', '.join([*SHARED, *types])}")
    for name, type_ in types.items():
        if name not in arguments:
            raise ValueError(f"the key {key}.{name} is missing; add it")
        kinds = (int, float) if type_ is float else (get_origin(type_) or type_,)
        if type(arguments[name]) not in kinds:
            raise ValueError(f"{key}.{name} must be a {type_.__name__}, not {arguments[name]!r}")
