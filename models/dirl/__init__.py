"""DIRL, and its cross-modal contrastive regularisation (CCR) (Tu et al., ECCV 2024)."""
