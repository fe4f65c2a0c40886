"""CLIP4IDC (Guo et al., AACL-IJCNLP 2022)."""
