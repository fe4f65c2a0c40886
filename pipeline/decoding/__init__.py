"""Decoding: captions by greedy or beam search, with the decoder's attention maps."""
