"""How sure a score is: paired bootstrap between models over the same test pairs, mean ± sd over seeds.

    a = statistics.read(pairs.jsonl of each seed of one model)
    statistics.compare(a, b)["CIDEr-D"].sentence("scorer_cbr", "rr")

A corpus score is a function of sums over pairs (corpus_sums.py), so that a resample of the test pairs is
scored from those sums and no caption is scored again.
"""

from pipeline.statistics.comparisons import Comparison, compare, compare_all, p_value, signed
from pipeline.statistics.pair_scores import Evidence, ScoredPair, evidence, of_retrieval, read, read_pairs
from pipeline.statistics.seeds import MeanSd, over_seeds

__all__ = [
    "Comparison",
    "Evidence",
    "MeanSd",
    "ScoredPair",
    "compare",
    "compare_all",
    "evidence",
    "of_retrieval",
    "over_seeds",
    "p_value",
    "read",
    "read_pairs",
    "signed",
]
