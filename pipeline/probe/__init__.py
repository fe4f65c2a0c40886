"""Linear probes: measure which attributes of objects can be read from a backbone's features."""
