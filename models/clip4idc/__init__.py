"""CLIP4IDC, a model that starts from CLIP (Guo et al., AACL-IJCNLP 2022)."""
