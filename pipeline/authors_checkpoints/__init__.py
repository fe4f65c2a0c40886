"""Import checkpoints that papers' authors released.

They become weights of our models. The import runs no code from the files.
"""
