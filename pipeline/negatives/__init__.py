"""Negatives: captions that are nearly right and wrong, six a pair, to be told from the true one."""
