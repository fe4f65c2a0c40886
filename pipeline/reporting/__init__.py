"""The report: score tables, learning curves and a gallery, as one self-contained page.

This file imports nothing, so that tables can be printed on a terminal without loading the code for drawing.
"""
