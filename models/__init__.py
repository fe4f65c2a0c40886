"""The models by name. To add one: its file, its entry here, its settings in params.yaml."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from models import (
    baselines,
    cbr,
    ccr,
    clip4idc,
    clip_variants,
    dirl,
    idc_pcl,
    idc_pcl_variants,
    scorer,
    variants,
)
from models.captioner import Captioner
from models.clip import ClipSizes
from models.clip4idc import Retrieval
from models.grid_embedding import DataSizes
from models.grid_embedding import Sizes as Sizes
from models.idc_pcl_network import PclSizes
from models.idc_pcl_pretraining import Pretraining

FirstPhase: TypeAlias = Retrieval | Pretraining
Model: TypeAlias = Captioner | FirstPhase
"""What the training loop trains: a phase of a model."""
Chosen: TypeAlias = variants.Switches | clip_variants.ClipSwitches | idc_pcl_variants.PclSwitches
"""What a model's settings choose: its switches."""
LABELLED = (Pretraining, idc_pcl.MaskedCaptioner)  # those whose losses ask for Labels
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
    "clip_ft": clip4idc.clip_ft,
    "clip4idc_no_adapt": clip4idc.no_adapt,
    "clip4idc": clip4idc.clip4idc,
    "idc_pcl_no_pretrain": idc_pcl.no_pretraining,
    "idc_pcl": idc_pcl.captioning,
}
# the phase before captioning, of models that have one: a model of its own, from the same settings
FIRST_PHASE: dict[str, Callable[..., FirstPhase]] = {
    "clip4idc": clip4idc.adaptation,
    "idc_pcl": idc_pcl.pretraining,
}
# what comes before that phase, on single images, of models that may have it
IMAGE_PHASE: dict[str, Callable[..., Pretraining]] = {"idc_pcl": idc_pcl.image_pretraining}
# its stage, and its settings' name in params.yaml
FIRST_STAGE = {"clip4idc": "adapt", "idc_pcl": "pretrain"}
# switches of the captioning after it alone: the phase before is the same whatever they are
CAPTIONING = {"clip4idc": ("memory", "words"), "idc_pcl": ("reduction", "distractor_judging", "barred")}
CLIPS = ("clip_ft", "clip4idc_no_adapt", "clip4idc")
PCLS = ("idc_pcl_no_pretrain", "idc_pcl")
GRID, PIXELS = "grid", "pixels"
# below which name of dataset.<name>.own a model's sizes and phases stand, where not in dataset.<name> itself
OWN = dict.fromkeys(CLIPS, "clip") | dict.fromkeys(PCLS, "idc_pcl")
# whose program the variant `released` is, where not SCORER's
RELEASED: dict[str, Chosen] = {
    **dict.fromkeys(("transformer", "dirl", "ccr", "dirl_ccr"), variants.RELEASED_DIRL),
    **dict.fromkeys(CLIPS, clip_variants.RELEASED),
    **dict.fromkeys(PCLS, idc_pcl_variants.RELEASED),
}
# the class of a model's sizes, where not Sizes
SIZES: dict[str, type[DataSizes]] = {**dict.fromkeys(CLIPS, ClipSizes), **dict.fromkeys(PCLS, PclSizes)}
# what every model's settings may hold beside its own, and what holds where they do not
SHARED = {"variant": "paper", "switches": {}}


def input_of(name: str, settings: Mapping[str, Any]) -> str:
    """What the model of these settings reads: the GRID of a backbone's features, or PIXELS."""
    switches = settings.get("switches")
    features = isinstance(switches, Mapping) and switches.get("patches") == "features"
    return PIXELS if name in CLIPS and not features else GRID


def sizes_of(name: str) -> type[DataSizes]:
    """The class of the model's sizes: those of the data come first in it."""
    return SIZES.get(name, Sizes)


def build(name: str, sizes: DataSizes, settings: dict[str, Any]) -> Captioner:
    """The model of that name. Raises ValueError where there is none, or its settings are not `settings`.

    `settings` may name a variant and override single switches (switches.py); without them it is the
    paper's. The rest are the keyword arguments of the model's function in its file.
    """
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r}; there are {', '.join(MODELS)}")
    return _built(MODELS[name], name, sizes, settings)


def build_first_phase(
    name: str, sizes: DataSizes, settings: dict[str, Any], images: bool = False
) -> FirstPhase:
    """The same of the phase before captioning; `images`: of what comes before that, on single images.

    Raises ValueError where the model has none.
    """
    makers: Mapping[str, Callable[..., FirstPhase]] = IMAGE_PHASE if images else FIRST_PHASE
    if name not in makers:
        raise ValueError(f"{name!r} has no phase before captioning; {', '.join(makers)} has")
    return _built(makers[name], name, sizes, settings)


def switches_of(name: str, settings: Mapping[str, Any]) -> Chosen:
    """The switches of a model of these settings: its variant's, single ones overridden."""
    shared = SHARED | {key: value for key, value in settings.items() if key in SHARED}
    released = RELEASED.get(name, variants.RELEASED)
    return variants.resolve(f"model.{name}", shared["variant"], shared["switches"], released)


def _built(make: Callable[..., Any], name: str, sizes: DataSizes, settings: dict[str, Any]) -> Any:
    wanted = {
        key: parameter.annotation
        for key, parameter in inspect.signature(make).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    own = {key: value for key, value in settings.items() if key not in SHARED}
    _check(f"model.{name}", wanted, own)
    return make(sizes, switches_of(name, settings), **own)


def _check(key: str, wanted: dict[str, type], own: dict[str, Any]) -> None:
    for name in own.keys() - wanted.keys():
        raise ValueError(f"unknown key {key}.{name}; it has {', '.join([*SHARED, *wanted])}")
    for name, kind in wanted.items():
        if name not in own:
            raise ValueError(f"the key {key}.{name} is missing; add it")
        if type(own[name]) not in ((int, float) if kind is float else (kind,)):
            raise ValueError(f"{key}.{name} must be a {kind.__name__}, not {own[name]!r}")
