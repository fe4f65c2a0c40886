"""How sure a score is: paired bootstrap between models over the same test pairs, mean ± sd over seeds.

    a = pair_scores.read(pairs.jsonl of each seed of one model)
    comparisons.compare(a, b)["CIDEr-D"].sentence("scorer_cbr", "rr")

A corpus score is a function of sums over pairs (corpus_sums.py), so that a resample of the test pairs is
scored from those sums and no caption is scored again.
"""
