"""Caption any two images, with trained weights or a shared package.

    from pipeline.captioning import PictureCaptioner
    PictureCaptioner.load("FILE.zip")("before.png", "after.png")

The search for captions is in pipeline/decoding.
"""

from pipeline.captioning.picture_captioner import PictureCaptioner

__all__ = ["PictureCaptioner"]
