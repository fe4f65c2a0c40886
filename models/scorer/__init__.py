"""SCORER, its backward reasoning (CBR), and its subtraction baseline (Tu et al., ICCV 2023)."""
