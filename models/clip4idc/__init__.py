"""CLIP4IDC, a model that is initialised from CLIP (Guo et al., AACL-IJCNLP 2022)."""
