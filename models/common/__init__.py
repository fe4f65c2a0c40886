"""What the models of several papers share: encoder, decoder, attention, switches, losses' base."""
