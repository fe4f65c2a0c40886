"""DUDA, a model with an attention map on each image and an LSTM decoder (Park et al., ICCV 2019)."""
