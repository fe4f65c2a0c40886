"""Trained models on disk: their folder, its description and checks, weights from other places."""
