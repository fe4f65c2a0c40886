"""Caption two images with a package of trained weights."""

from pipeline.captioning.picture_captioner import PictureCaptioner, Ranked, Search

__all__ = ["PictureCaptioner", "Ranked", "Search"]
