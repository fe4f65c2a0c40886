"""Unpublished initial weights, with which models learn from few pairs."""
