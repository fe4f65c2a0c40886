"""The page of `make demo`: scenes drawn while you wait, or your two pictures, captioned side by side.

What a browser is shown lives here; how pictures are captioned does not.
"""
