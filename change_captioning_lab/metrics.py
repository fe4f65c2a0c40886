"""Compute caption metrics of a corpus: BLEU, METEOR, ROUGE-L, CIDEr-D and SPICE."""

from pipeline.scoring.corpus import Scores, score

__all__ = ["Scores", "score"]
