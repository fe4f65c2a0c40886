"""Feature grids: extract them from images with a backbone, store them in Zarr, and read them again.

Only this package handles chunks, shards, codecs, preprocessing and .npy files.
"""
