"""Parts that several models share: encoder and decoder classes, attention, switches, base of loss terms."""
