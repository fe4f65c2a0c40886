"""Captions of anyone's pictures, by trained weights of this laboratory or by a file that was shared.

    from pipeline.captioning import PictureCaptioner
    PictureCaptioner.load("FILE.zip")("before.png", "after.png")

What makes features of pictures outside a dataset, packs weights to share, or writes captions of many pairs
belongs here; what searches for captions does not.
"""

from pipeline.captioning.picture_captioner import PictureCaptioner

__all__ = ["PictureCaptioner"]
