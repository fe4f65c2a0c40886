"""Feature grids: images -> backbone -> a Zarr store, and back out of it, from disk or memory.

What knows chunks, shards, codecs, preprocessing or .npy files belongs here; what uses features does not.
"""
