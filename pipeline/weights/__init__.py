"""Weights of models on disk: folder, description and checks of a trained model; imported weights."""
