"""Measures of a confidence against their definitions, and the refusal of unfamiliar images."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.confidence import familiarity, measures
from pipeline.confidence.appearance import SIZE
from pipeline.confidence.familiarity import DISTANCES, OTHER_SCENE, UNLIKE
from pipeline.statistics.bootstrap import area_under_roc

captions = st.lists(st.tuples(st.floats(0, 1, width=16), st.booleans()), min_size=2, max_size=30)


@given(captions)
def test_ranking_is_the_share_of_ordered_pairs(given):
    confidence, correct = np.array([c for c, _ in given]), np.array([right for _, right in given])
    wins = [
        (one > other) + (one == other) / 2 for one in confidence[correct] for other in confidence[~correct]
    ]
    found = area_under_roc(confidence, correct)
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


def test_the_interval_is_wider_if_two_pairs_share_a_scene():
    random = np.random.default_rng(0)
    correct = np.repeat(random.random(100) < 0.7, 2)
    confidence = random.random(200)

    def share(_, correct):
        return float(correct.mean())

    value, low, high = measures.interval(share, confidence, correct, [str(n) for n in range(200)])
    _, scenes_low, scenes_high = measures.interval(
        share, confidence, correct, [str(n // 2) for n in range(200)]
    )
    assert low < value < high
    assert scenes_high - scenes_low > 1.2 * (high - low)


def grids(count, seed):
    random = torch.Generator().manual_seed(seed)
    images = torch.randn(count, 8, 1, 1, generator=random)
    return images + torch.randn(count, 8, 5, 5, generator=random)


def statistics(count, seed):
    return np.random.default_rng(seed).normal(size=(count, SIZE))


@pytest.fixture(scope="module")
def fitted():
    own = familiarity.fitted(familiarity.pooled(grids(400, 0)), statistics(400, 0))
    before = grids(1000, 1)
    after = before + 0.3 * torch.randn(before.shape, generator=torch.Generator().manual_seed(2))
    pairs = before, after, statistics(1000, 1), statistics(1000, 2)
    return familiarity.with_thresholds(own, own.distances(*pairs)), pairs


def reasons(own, *pairs):
    return [own.reason(each) for each in own.distances(*pairs)]


def test_the_thresholds_refuse_unfamiliar_pairs_and_few_others(fitted):
    own, (before, after, first, second) = fitted
    found = reasons(own, before, after, first, second)
    assert sum(reason is not None for reason in found) <= 0.0075 * len(found)
    for others in (
        (before + 9, after + 9, first, second),
        (before, after + 9, first, second),
        (before, after, first + 9, second),
        (before, after, first, second + 9),
    ):
        assert set(reasons(own, *others)) == {UNLIKE}
    swapped = reasons(own, before, after.roll(1, 0), first, second)
    assert swapped.count(OTHER_SCENE) > 0.9 * len(swapped)


def test_the_order_of_the_images_does_not_matter(fitted):
    own, (before, after, first, second) = fitted
    distances = own.distances(before, after, first, second), own.distances(after, before, second, first)
    np.testing.assert_allclose(*distances, atol=1e-5)


def test_the_fall_separates_familiar_from_foreign_images(fitted):
    own, pairs = fitted
    familiar = own.distances(*pairs)
    appearances = familiar[:, DISTANCES.index("appearance")]
    assert own.probability(familiar).min() > 0.999  # before a fall is fitted
    falling = own.with_fall(appearances, 3 * appearances)
    assert own.appearance <= falling.appearance <= familiarity.WIDEST * own.appearance
    assert np.median(falling.probability(familiar)) > 0.99
    assert np.median(falling.probability(3 * familiar)) < 0.5
    # images that are as near as the familiar ones say nothing
    chances = own.with_fall(appearances, appearances).probability(familiar)
    np.testing.assert_allclose(chances, familiarity.FAMILIAR, atol=0.01)


def test_nan_is_refused(fitted):
    assert fitted[0].reason([float("nan"), 0.0, 0.0]) == UNLIKE
    assert fitted[0].reason([0.0, float("nan"), 0.0]) == UNLIKE
    assert fitted[0].reason([0.0, 0.0, float("nan")]) == OTHER_SCENE
