"""Weights of models on disk: the folder of a trained model, its description, its checks, imported weights."""
