"""DIRL, and cross-modal contrastive regularization (CCR)."""
