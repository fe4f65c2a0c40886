"""Generate negatives for the pre-training of a model: wrong captions that are similar to true captions."""
