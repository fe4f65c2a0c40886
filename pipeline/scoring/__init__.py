"""Metrics of captions, as in the COCO caption evaluation; `corpus.score` is the entry point.

This file imports nothing. Training uses only `tokenizer` and `metrics`, so it need not be repeated when the
code of METEOR changes.
"""
