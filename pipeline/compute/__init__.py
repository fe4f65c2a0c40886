"""Compute resources of a stage: device, precision, free memory, and processes that share its work."""
