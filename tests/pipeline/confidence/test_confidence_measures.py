"""Measures of a confidence against their definitions, and images of another kind."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.confidence import familiarity, measures
from pipeline.confidence.familiarity import OTHER_SCENE, UNLIKE

captions = st.lists(st.tuples(st.floats(0, 1, width=16), st.booleans()), min_size=2, max_size=30)


@given(captions)
def test_ranking_is_the_share_of_pairs_in_order(given):
    confidence, correct = np.array([c for c, _ in given]), np.array([right for _, right in given])
    wins = [
        (one > other) + (one == other) / 2 for one in confidence[correct] for other in confidence[~correct]
    ]
    found = measures.ranking(confidence, correct)
    assert found is None if not wins else found == pytest.approx(np.mean(wins))


def test_calibration_error_by_hand():
    sure, correct = np.array([0.9] * 50 + [0.3] * 50), np.array([True] * 40 + [False] * 60)
    # 40 of 50 are correct at .9, and none of 50 at .3; bins of 10 do not cross
    assert measures.calibration_error(sure, correct) == pytest.approx(
        (4 * 0.1 * 10 + 0.9 * 10 + 0.3 * 50) / 100
    )
    assert measures.calibration_error(np.full(10, 0.5), np.arange(10) < 5) == pytest.approx(0.5)


@given(captions)
def test_risk_at_full_coverage_is_the_share_of_wrong_captions(given):
    confidence, correct = np.array([c for c, _ in given]), np.array([right for _, right in given])
    coverage, risk = measures.risk_coverage(confidence, correct)
    assert coverage[-1] == 1
    assert risk[-1] == pytest.approx((~correct).mean())
    assert measures.at_coverage(confidence, correct, 1.0) == pytest.approx(correct.mean())
    half = measures.at_coverage(confidence, correct, 0.5)
    assert half == pytest.approx(1 - risk[max(1, round(len(given) / 2)) - 1])


def test_an_interval_holds_its_value_and_is_wider_with_scenes_of_two():
    random = np.random.default_rng(0)
    correct = np.repeat(random.random(100) < 0.7, 2)
    confidence = random.random(200)

    def share(_, correct):
        return float(correct.mean())

    alone = measures.interval(share, confidence, correct, [str(n) for n in range(200)])
    scenes = measures.interval(share, confidence, correct, [str(n // 2) for n in range(200)])
    assert alone.low < alone.value < alone.high
    assert scenes.high - scenes.low > 1.2 * (alone.high - alone.low)


def grids(count, seed, shift=0.0):
    random = torch.Generator().manual_seed(seed)
    return (
        torch.randn(count, 1, 8, 1, 1, generator=random)[:, 0]
        + torch.randn(count, 8, 5, 5, generator=random)
        + shift
    )


@pytest.fixture(scope="module")
def fitted():
    own = familiarity.fitted(familiarity.pooled(grids(400, 0)))
    before = grids(400, 1)
    after = before + 0.3 * torch.randn(before.shape, generator=torch.Generator().manual_seed(2))
    return familiarity.with_thresholds(own, own.distances(before, after)), before, after


def test_the_thresholds_refuse_few_pairs_and_the_rest(fitted):
    own, before, after = fitted
    reasons = [own.reason(each) for each in own.distances(before, after)]
    assert 0 < sum(reason is not None for reason in reasons) <= 0.02 * len(reasons)
    assert {own.reason(each) for each in own.distances(before + 9, after + 9)} == {UNLIKE}
    # one familiar image does not save a pair
    assert {own.reason(each) for each in own.distances(before, after + 9)} == {UNLIKE}
    swapped = [own.reason(each) for each in own.distances(before, after.roll(1, 0))]
    assert swapped.count(OTHER_SCENE) > 0.9 * len(swapped)


def test_the_order_of_the_images_does_not_matter(fitted):
    own, before, after = fitted
    np.testing.assert_allclose(own.distances(before, after), own.distances(after, before), atol=1e-5)


def test_what_is_not_a_number_is_refused(fitted):
    assert fitted[0].reason([float("nan"), 0.0]) == UNLIKE
    assert fitted[0].reason([0.0, float("nan")]) == OTHER_SCENE
