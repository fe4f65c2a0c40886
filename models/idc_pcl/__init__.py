"""IDC-PCL (Yao et al., AAAI 2022)."""
