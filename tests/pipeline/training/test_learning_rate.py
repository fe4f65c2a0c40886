"""Learning-rate schedules against numbers worked out by hand."""

import math

import pytest

from pipeline.training.learning_rate import factor


def test_constant_never_changes():
    assert {factor("constant", i, 1000, 7) for i in range(1000)} == {1.0}


def test_step_divides_by_ten_every_fifteen_epochs():
    epoch = 4
    rates = [factor("step", i, 200, epoch) for i in (0, 59, 60, 119, 120)]
    assert rates == pytest.approx([1, 1, 0.1, 0.1, 0.01])


def test_step_early_divides_by_ten_an_epoch_earlier():
    """DUDA's program: 265 iterations an epoch, so after 3,710 and 7,685."""
    rates = [factor("step_early", i, 10_070, 265) for i in (0, 3709, 3710, 7684, 7685, 10_069)]
    assert rates == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])


def test_cosine_rises_over_a_hundred_iterations_and_falls_to_nothing():
    rates = [factor("cosine", i, 1100, 1) for i in range(1100)]
    assert rates[:100] == pytest.approx([(i + 1) / 100 for i in range(100)])
    assert rates[100] == 1.0
    assert rates[600] == pytest.approx(0.5)  # half-way down
    assert rates[350] == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
    assert 0 < rates[-1] < 1e-5


def test_a_short_run_warms_up_over_a_tenth_of_itself():
    assert [factor("cosine", i, 20, 1) for i in range(3)] == pytest.approx([0.5, 1.0, 1.0])
    assert factor("cosine", 0, 5, 1) == 1.0  # no iteration to spare
