"""The embedded dataset `tabletop`: CLEVR-Change in miniature, made on this machine from a seed."""
