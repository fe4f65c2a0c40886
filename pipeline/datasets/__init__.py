"""Datasets: readers of the published file layouts, dataset cards, checks, and the images with their index."""
