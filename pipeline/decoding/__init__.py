"""Decoding: captions of pairs by greedy or beam search, with the decoder's attention maps."""
