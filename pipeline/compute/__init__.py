"""Compute resources of a stage: device, precision, memory, and processes that share the stage's work."""
