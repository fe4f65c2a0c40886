"""What a stage computes on: device, precision, free memory, and several processes that share the work."""
