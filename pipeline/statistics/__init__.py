"""Uncertainty of scores: paired bootstrap between models over the same test pairs, mean ± sd over seeds.

A corpus score is a function of sums over pairs (pair_scores.py), so no caption of a resample is scored again.
"""
