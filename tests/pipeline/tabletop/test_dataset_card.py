"""How far objects move between two views, by hand."""

import pytest

from pipeline.tabletop.dataset_card import moved


def scene(default, nonsemantic):
    return {"views": {"default": {"boxes": default}, "nonsemantic": {"boxes": nonsemantic}}}


def test_places_are_counted_in_cells_of_the_squashed_picture():
    # 280 x 140 pixels: a cell is 20 wide and 10 high; the box's middle goes 3 cells right and 4 down
    found = moved([scene([(0, 0, 20, 10)], [(50, 35, 40, 20)])], 280, 140)
    assert found == pytest.approx((5.0, 5.0))


def test_the_median_and_nine_tenths_of_all_objects_of_all_scenes():
    still, right = (0, 0, 10, 10), (20, 0, 10, 10)
    median, most = moved([scene([still] * 3, [still, still, right]), scene([right], [right])], 140, 140)
    assert median == 0.0
    assert most == pytest.approx(0.7 * 2)  # numpy's linear quantile of 0, 0, 0, 2
