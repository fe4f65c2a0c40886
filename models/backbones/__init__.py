"""The networks whose feature grids models read."""
