"""Confidence: the probability that a caption is correct, and the refusal of images of another kind."""
