"""A linear probe of what a backbone's features know."""
