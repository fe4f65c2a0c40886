"""The oracle's features: each thing once, its symbols readable again."""

import numpy as np
import pytest

from benchmarks.oracle import CHANNELS, symbols
from pipeline.datasets.images import Indexed
from pipeline.io.errors import InputError
from pipeline.probe.grid_labels import ATTRIBUTES, NOTHING, Shown

IMAGE = Indexed("a.png", 320, 200, 1, "")
BOXES = ((90, 10, 30, 20), (100, 12, 10, 12), (300, 180, 20, 20))  # the first two share a cell
CLASSES = np.array([[7, 2, 1, 1], [0, 0, 0, 0], [3, 1, 0, 1], [NOTHING] * 4], np.int8)


def read(grid):
    """(row, column) -> classes, and where the middle is."""
    found = {}
    for row, column in zip(*np.nonzero(grid[0]), strict=True):
        cell, place, classes = grid[:, row, column], 1, []
        for values in ATTRIBUTES.values():
            (ones,) = np.nonzero(cell[place : place + len(values)])
            classes += ones.tolist()
            place += len(values)
        found[int(row), int(column)] = (classes, cell[place : place + 2])
        assert not cell[CHANNELS:].any()
    return found


def test_every_thing_is_in_a_cell_with_its_symbols():
    grid = symbols(Shown(np.zeros((3, 10)), CLASSES, (0, 0, 0), BOXES), IMAGE, (20, 7, 7))
    assert grid.dtype == np.float32
    assert grid.shape == (20, 7, 7)
    found = read(grid)
    # the larger one is where its middle is (105, 20 of 320 x 200), the other one in the nearest free cell
    assert {place: own[0] for place, own in found.items()} == {
        (0, 2): [7, 2, 1, 1],
        (0, 1): [0, 0, 0, 0],
        (6, 6): [3, 1, 0, 1],
    }
    assert found[0, 2][1] == pytest.approx([20 / 200 * 7 - 0.5, 105 / 320 * 7 - 2.5])
    assert not grid[:, grid[0] == 0].any()


def test_too_few_channels_are_refused():
    with pytest.raises(InputError, match="18 symbols do not fit into 10 channels; take another backbone"):
        symbols(Shown(np.zeros((3, 10)), CLASSES, (0, 0, 0), BOXES), IMAGE, (10, 7, 7))
