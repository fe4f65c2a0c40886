"""Linear probes: which attributes of scenes a backbone's features contain."""
