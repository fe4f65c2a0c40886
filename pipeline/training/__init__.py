"""Training of all models: batches, learning rate, steps, validation, resuming after a kill."""
