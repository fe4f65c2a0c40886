"""IDC-PCL, a model that is pretrained on image pairs and captions (Yao et al., AAAI 2022)."""
