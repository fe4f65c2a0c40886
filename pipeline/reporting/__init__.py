"""The report: score tables, learning curves and a gallery, as one self-contained page.

Nothing is imported here: the tables are printed on a terminal too, without drawing anything.
"""
