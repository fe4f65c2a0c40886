"""Metrics of captions, as in the COCO caption evaluation; `corpus.score` is the entry point.

This file imports nothing: training needs only `tokenizer` and `metrics`, and must not be rerun
when METEOR's driver changes.
"""
