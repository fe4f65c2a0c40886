"""Generate negatives: wrong captions that are similar to true captions, for pre-training a model."""
