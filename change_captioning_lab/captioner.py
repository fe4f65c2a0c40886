"""Caption two images with a package of trained weights."""

import warnings
from typing import Any

from pipeline.captioning.pair_captioner import PairCaptioner, Ranked, Search

__all__ = ["PairCaptioner", "Ranked", "Search"]


def __getattr__(name: str) -> Any:
    if name != "PictureCaptioner":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn("PictureCaptioner is called PairCaptioner now", DeprecationWarning, stacklevel=2)
    return PairCaptioner
