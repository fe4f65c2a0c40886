"""Metrics of captions, as in the COCO caption evaluation; `corpus.score` is the entry point."""
