"""Datasets: readers of the published layouts, cards, checks, the images and their index."""
