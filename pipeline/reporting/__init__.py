"""The report: score tables, learning curves and a gallery, as one self-contained page.

This file imports nothing: to print the tables on a terminal, no code for drawing is needed.
"""
