"""Packages that the stages share: data, features, text, training, decoding, scoring, reporting."""
