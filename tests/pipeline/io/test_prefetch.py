"""Prefetched results keep their order, are bounded in number, and errors are raised at their item."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.io.prefetch import prefetch


@given(items=st.lists(st.integers()), threads=st.integers(1, 4), ahead=st.integers(1, 5))
def test_order_is_kept(items, threads, ahead):
    assert list(prefetch(lambda x: 2 * x, items, threads, ahead)) == [2 * x for x in items]


def test_no_further_ahead_than_asked():
    taken = []

    def items():
        for number in range(100):
            taken.append(number)
            yield number

    results = prefetch(lambda x: x, items(), workers=2, ahead=3)
    assert next(results) == 0
    assert len(taken) == 4
    results.close()
    assert len(taken) == 4


def test_an_error_is_raised_in_its_place_and_the_threads_end():
    before = threading.active_count()
    results = prefetch(lambda x: 1 // x, [2, 1, 0, 1], workers=2, ahead=2)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert threading.active_count() == before
