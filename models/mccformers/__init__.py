"""MCCFormers-D and MCCFormers-S: transformers over the cells of both images (Qiu et al., ICCV 2021)."""
