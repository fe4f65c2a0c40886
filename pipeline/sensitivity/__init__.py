"""Measure what caption metrics cannot see: captions with one mistake, and true captions in other words."""
