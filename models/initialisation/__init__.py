"""Initial weights that are in no paper, for training on few pairs."""
