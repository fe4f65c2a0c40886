"""Weights of models on disk: folder, description and checks of a trained model; imported weights."""

FILE = "weights.safetensors"  # here, so that the stage `score` knows the name without loading torch
