"""IDC-PCL: image difference captioning with pre-training and contrastive learning (Yao et al., AAAI 2022)."""
