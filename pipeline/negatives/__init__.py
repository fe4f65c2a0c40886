"""Negatives: false captions that are almost like the true ones; models learn to distinguish them."""
