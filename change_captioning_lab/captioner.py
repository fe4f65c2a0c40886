"""Caption two images with a package of trained weights."""

from pipeline.captioning.pair_captioner import PairCaptioner, Ranked, Search

__all__ = ["PairCaptioner", "Ranked", "Search"]
