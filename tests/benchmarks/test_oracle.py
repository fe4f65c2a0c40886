"""Oracle features: each object is in one cell, and its symbols can be read again."""

import numpy as np
import pytest

from benchmarks.oracle import CHANNELS, symbols
from pipeline.datasets.images import Indexed
from pipeline.io.errors import InputError
from pipeline.probe.grid_labels import ATTRIBUTES, NOTHING, SceneView

IMAGE = Indexed("a.png", 320, 200, 1, "")
BOXES = ((90, 10, 30, 20), (100, 12, 10, 12), (300, 180, 20, 20))  # the first two share a cell
CLASSES = np.array([[7, 2, 1, 1], [0, 0, 0, 0], [3, 1, 0, 1], [NOTHING] * 4], np.int8)
SHOWN = SceneView(np.zeros((3, 10)), CLASSES, (0, 0, 0), BOXES)


def classes_at(grid, row, column):
    sizes = [len(attribute_values) for attribute_values in ATTRIBUTES.values()]
    one_hot = np.split(grid[1 : 1 + sum(sizes), row, column], np.cumsum(sizes)[:-1])
    return [int(values.nonzero()[0].item()) for values in one_hot]


def test_every_object_is_in_a_cell_with_its_symbols():
    grid = symbols(SHOWN, IMAGE, (20, 7, 7))
    assert grid.dtype == np.float32
    # the larger object is at its centre (105, 20 of 320 x 200), the other one in the nearest free cell
    cells = sorted(zip(*np.nonzero(grid[0]), strict=True))
    assert cells == [(0, 1), (0, 2), (6, 6)]
    assert [classes_at(grid, *cell) for cell in cells] == [[0, 0, 0, 0], [7, 2, 1, 1], [3, 1, 0, 1]]
    assert grid[CHANNELS - 2 : CHANNELS, 0, 2] == pytest.approx([20 / 200 * 7 - 0.5, 105 / 320 * 7 - 2.5])
    assert not grid[CHANNELS:].any()
    assert not grid[:, grid[0] == 0].any()


def test_too_few_channels_are_refused():
    with pytest.raises(InputError, match="10 channels"):
        symbols(SHOWN, IMAGE, (10, 7, 7))
