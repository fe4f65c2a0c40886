"""VARD: what the images of a pair share is separated from what differs."""
