"""Confidence: the probability that a caption is correct, and the refusal of unfamiliar images."""
