"""Token-wise matching: fast implementations, and a reference implementation in plain torch."""
