"""Feature grids: extract them from images with a backbone, store them in Zarr, and read them again.

Code that deals with chunks, shards, codecs, preprocessing or .npy files belongs in this package.
"""
