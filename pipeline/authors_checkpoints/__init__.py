"""The papers' authors' released checkpoints, read without executing anything, as weights of our models."""
