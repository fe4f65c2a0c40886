"""Caption any two images, with trained weights or a shared package.

    from pipeline.captioning import PairCaptioner
    PairCaptioner.load("FILE.zip")("before.png", "after.png")

The search for captions is in pipeline/decoding.
"""

from pipeline.captioning.pair_captioner import PairCaptioner

__all__ = ["PairCaptioner"]
