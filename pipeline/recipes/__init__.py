"""What decides a training run, resolved from params.yaml, and the trained model that comes of it, on disk."""
