"""Pretrained image networks; their feature grids are the input of the models."""
