"""Learning-rate schedules against numbers worked out by hand."""

import pytest

from pipeline.training.optimisers import factor


@pytest.mark.parametrize(
    ("schedule", "given", "wanted"),  # given: iterations, epoch, warm_up, milestones; wanted: by iteration
    [
        ("constant", (1000, 7), {0: 1, 999: 1}),
        ("step", (200, 4), {0: 1, 59: 1, 60: 0.1, 119: 0.1, 120: 0.01}),
        # DUDA's program: 265 iterations per epoch
        ("step_early", (10_070, 265), {0: 1, 3709: 1, 3710: 0.1, 7684: 0.1, 7685: 0.01, 10_069: 0.01}),
        (
            "cosine",
            (1100, 1),
            {0: 0.01, 99: 1, 100: 1, 350: 0.8536, 600: 0.5, 1099: 0},
        ),
        ("cosine", (20, 1), {0: 0.5, 1: 1, 2: 1}),
        ("cosine", (5, 1), {0: 1}),
        ("warmup_cosine", (200, 1), {0: 0, 10: 0.5, 20: 0.9755, 100: 0.5, 150: 0.1464}),
        ("warmup_linear", (200, 1), {0: 0, 10: 0.5, 20: 1, 110: 0.5, 200: 0}),
        ("noam", (50, 1, 8), {0: 1e-4, 1: 1 / 8, 4: 0.5, 8: 1, 32: 0.5}),
        ("halves", (50, 1, None, (10, 20)), {0: 1, 9: 1, 10: 0.5, 19: 0.5, 20: 0.25, 49: 0.25}),
        # MEDIC's program: the first iteration is below the rate, the last and later ones have the rate 0
        ("poly", (10, 3), {0: 0.9**0.9, 4: 0.5**0.9, 8: 0.1**0.9, 9: 0, 10: 0, 12: 0}),
        ("tenths", (50, 1, None, (10, 20)), {0: 1, 9: 1, 10: 0.1, 19: 0.1, 20: 0.01, 49: 0.01}),
    ],
)
def test_schedules(schedule, given, wanted):
    iterations, epoch, *others = given
    settings = {"schedule": schedule, "iterations": iterations}
    settings |= dict(zip(("warm_up", "milestones"), others, strict=False))
    found = {iteration: factor(settings, iteration, epoch) for iteration in wanted}
    assert found == pytest.approx(wanted, abs=1e-4)
