"""Import checkpoints that the papers' authors released, as weights of our models; no code in them runs."""
