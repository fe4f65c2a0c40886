"""Feature grids: from images through a backbone to a Zarr store, and reading them from disk or memory.

Code that knows chunks, shards, codecs, preprocessing or .npy files belongs here.
"""
