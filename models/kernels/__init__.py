"""Fast matching and attention, each next to its reference implementation."""
