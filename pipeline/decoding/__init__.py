"""Captions of a trained model: greedy and beam search, and where the decoder looked meanwhile."""
