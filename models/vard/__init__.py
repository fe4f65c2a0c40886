"""VARD, a model that separates what the images share from what differs (Tu et al., TIP 2023)."""
