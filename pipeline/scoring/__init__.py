"""Caption metrics as the COCO caption evaluation computes them; `corpus.score` is the one entry point.

Nothing is imported here: training needs `tokenizer` and `metrics` alone, and must not be rerun
because METEOR's driver changed.
"""
