"""Fast matching and attention, each beside its plain twin."""
