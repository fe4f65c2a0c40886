"""Confidence: the probability that a caption is correct, and images unlike the training images."""
