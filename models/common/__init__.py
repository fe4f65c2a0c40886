"""Modules that several models share: encoders, decoders, attention, switches, base class of loss terms."""
