"""A linear probe: what the features of a backbone tell about the scenes."""
