"""Planted differences are found as often as stated, and less often after Holm's correction."""

import numpy as np
import pytest

from pipeline.scoring.conditions import Conditions
from pipeline.statistics import comparisons
from pipeline.statistics.evidence import MILLION, Evidence


def evidence(numbers: np.ndarray) -> Evidence:
    ids = tuple(map(str, range(numbers.shape[1])))
    return Evidence(ids, {"CIDEr-D": numbers}, conditions=Conditions(tokeniser="ptb"), references=ids)


def planted(shift: float, pairs: int, seed: int) -> list[Evidence]:
    """Two models whose CIDEr-D differs by `shift` in the population, correlated over pairs."""
    random = np.random.default_rng(seed)
    common = random.normal(1.0, 0.5, pairs)
    made = []
    for extra in (shift, 0.0):
        values = np.rint((common + extra + random.normal(0, 0.2, pairs)) * MILLION)
        numbers = np.stack([values, np.ones(pairs)], 1)[None]
        made.append(evidence(numbers))
    return made


def test_intervals_hold_a_planted_difference_as_often_as_they_say():
    held = found = 0
    for seed in range(200):
        a, b = planted(0.1, 60, seed)
        own = comparisons.compare(a, b, 400, seed)["CIDEr-D"]
        held += own.low <= 0.1 <= own.high
        found += own.significant
    assert 180 <= held <= 198  # 95 % of 200, less the percentile bootstrap's small-sample optimism
    assert 120 <= found <= 200  # 2.7 standard errors: seen about four times in five


def test_no_difference_is_rarely_taken_for_one():
    significant = sum(
        comparisons.compare(*planted(0.0, 60, seed), 400, seed)["CIDEr-D"].significant for seed in range(200)
    )
    assert significant <= 22


def test_a_plain_difference_is_told_in_words():
    a, b = planted(0.5, 60, 1)
    own, turned = comparisons.compare(a, b, 2000)["CIDEr-D"], comparisons.compare(b, a, 2000)["CIDEr-D"]
    assert own.significant
    assert own.low > 0.4
    assert own.p == pytest.approx(2 / 2001)
    assert own.sentence("ours", "theirs").startswith("ours is better than theirs by ")
    assert turned.sentence("theirs", "ours").startswith("ours is better than theirs by ")
    assert "(theirs − ours: 95 % interval −" in turned.sentence("theirs", "ours")


@pytest.mark.parametrize(("pairs", "significant"), [(1, False), (5, False), (8, True)])
def test_a_handful_of_pairs_proves_nothing_however_one_sided(pairs, significant):
    a, b = planted(50.0, pairs, 1)
    assert comparisons.compare(a, b, 2000)["CIDEr-D"].significant is significant


@pytest.mark.parametrize(("pairs", "significant"), [(4, False), (8, True)])
def test_the_model_with_fewer_scored_pairs_limits_p(pairs, significant):
    """The other model has the metric of all 40 pairs."""
    a, b = planted(50.0, 40, 1)
    b.numbers["CIDEr-D"][:, pairs:] = 0
    for own in (comparisons.compare(a, b, 2000), comparisons.compare(b, a, 2000)):
        assert own["CIDEr-D"].p >= 2.0 ** (1 - pairs)
        assert own["CIDEr-D"].significant is significant


def test_what_prints_as_nothing_is_no_difference():
    def model(score):
        numbers = np.tile([score * MILLION, 1.0], (1, 20, 1))
        return evidence(numbers)

    found = comparisons.compare(model(0.5004), model(0.5), 500)["CIDEr-D"]
    assert found.low > 0
    assert not found.significant
    assert comparisons.compare(model(0.5006), model(0.5), 500)["CIDEr-D"].significant


def test_holms_correction_of_several_models():
    a, b = planted(0.06, 60, 3)
    far = planted(5.0, 60, 3)[0]
    alone = comparisons.compare(a, b, 2000)["CIDEr-D"]
    among = comparisons.compare_all({"far": far, "a": a, "b": b}, 2000)
    ps = sorted([alone.p, 2 / 2001, 2 / 2001])
    assert alone.p > 2 / 2001
    assert among["a", "b"]["CIDEr-D"].p == pytest.approx(alone.p)  # the largest: times 1
    assert among["far", "a"]["CIDEr-D"].p == pytest.approx(3 * ps[0])  # the smallest: times 3
    assert among["far", "b"]["CIDEr-D"].p == pytest.approx(3 * ps[0])  # never below the one before
    assert among["a", "b"]["CIDEr-D"].low == alone.low
    assert "Holm's correction for 3 comparisons" in among["far", "b"]["CIDEr-D"].sentence("far", "b")
    a, b = planted(0.09, 60, 8)  # significant by itself, but not among 15 comparisons
    assert comparisons.compare(a, b, 2000)["CIDEr-D"].significant
    among = comparisons.compare_all({"a": a, "b": b, "c": b, "d": b, "e": b, "f": b}, 2000)["a", "b"]
    assert not among["CIDEr-D"].significant
    assert among["CIDEr-D"].low > 0
    assert comparisons.compare_all({"a": a}) == {}
