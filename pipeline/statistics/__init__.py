"""Uncertainty of scores: paired bootstrap between models over the same test pairs, mean ± sd over seeds.

    a = pair_scores.read(pairs.jsonl of each seed of one model)
    comparisons.compare(a, b)["CIDEr-D"].sentence("scorer_cbr", "rr")

A corpus score is a function of sums over pairs (corpus_sums.py). A resample of the test pairs is scored from
these sums, without scoring any caption again.
"""
