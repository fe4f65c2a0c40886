"""Shares with intervals over scenes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.statistics.bootstrap import share


def test_pairs_of_a_scene_that_agree_count_once_in_the_interval():
    random = np.random.default_rng(0)
    scenes = [str(n) for n in range(200)]
    true = [bool(each) for each in random.random(200) < 0.5]
    one = share(true, scenes)
    twice = share(true * 2, scenes * 2)  # each scene has two pairs of equal truth
    apart = share(true * 2, [*scenes, *(f"x{name}" for name in scenes)])
    assert (twice.low, twice.high) == (one.low, one.high)
    assert twice.high - twice.low > 1.3 * (apart.high - apart.low)
    half = 1.96 * np.sqrt(one.value * (1 - one.value) / 200)
    assert one.high - one.low == pytest.approx(2 * half, rel=0.1)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), min_size=1))
def test_an_interval_holds_the_share(rows):
    found = share([true for true, _ in rows], [scene for _, scene in rows])
    assert 0 <= found.low <= found.high <= 1
    assert found.number == len(rows)
    if len({scene for _, scene in rows}) == 1:
        assert found.low == pytest.approx(found.value) == found.high
