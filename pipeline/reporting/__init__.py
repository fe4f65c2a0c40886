"""Make the report: score tables, learning curves and a gallery, in one self-contained HTML page.

This file imports nothing, so that tables can be printed on a terminal without loading the code for drawing.
"""
