"""The bootstrap draws scenes with all their pairs, against a bootstrap that collects each drawn corpus."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.statistics import bootstrap, comparisons, pair_scores
from tests.scored import line, write


def scenes_by_hand(rows: list[dict], counts: np.ndarray) -> dict[str, list[float]]:
    """Metrics of each draw of scenes, from the pairs of the drawn scenes."""
    scenes = list(dict.fromkeys(row["scene_id"] for row in rows))
    found: dict[str, list[float]] = {"true": [], "true/changed": [], "CIDEr-D": [], "BLEU-4": []}
    for draw in counts.astype(int):
        drawn = [
            row
            for scene, times in zip(scenes, draw, strict=True)
            for row in rows * times
            if row["scene_id"] == scene
        ]
        found["true"].append(np.mean([row["true"] for row in drawn]))
        found["true/changed"].append(np.mean([row["true"] for row in drawn if row["changed"]]))
        found["CIDEr-D"].append(np.mean([row["CIDEr-D"] for row in drawn]))
        scorer = [[row["bleu"]["matches"], row["bleu"]["guesses"]] for row in drawn]
        matches, guesses = np.sum(scorer, 0)
        found["BLEU-4"].append(float(np.prod((matches + 1e-15) / (guesses + 1e-9)) ** 0.25))
    return found


def of_scenes(random: np.random.Generator, scenes: int, rate: float) -> list[dict]:
    """A changed pair of each scene, and an unchanged pair of most scenes; all pairs of a scene are alike."""
    rows = []
    for scene in range(scenes):
        easy = random.random() < rate
        for changed in (True, False)[: 1 + (scene % 5 > 0)]:
            true = bool(random.random() < (0.95 if easy else 0.1))
            bleu = {"matches": [9, 7, 5, 3 + true], "guesses": [9, 8, 7, 6]}
            bleu |= {"length": 9, "reference_length": 9}
            made = {"scene_id": str(scene), "changed": changed, "true": true, "bleu": bleu}
            rows.append(line(2 * scene + changed) | made | {"CIDEr-D": round(random.random() + true, 6)})
    return [rows[place] for place in np.random.default_rng(9).permutation(len(rows))]


def test_scenes_are_drawn_with_all_their_pairs(tmp_path):
    random = np.random.default_rng(4)
    runs = [of_scenes(random, 40, rate) for rate in (0.7, 0.5)]
    a, b = (pair_scores.read([write(tmp_path / "run", rows)]) for rows in runs)
    assert (len(a.pair_ids), a.scenes) == (72, 40)
    found = comparisons.compare(a, b, resamples=150, seed=3)
    counts = np.vstack([*bootstrap.draws(40, 150, 3)])
    ours, theirs = (scenes_by_hand(rows, counts) for rows in runs)
    whole = [scenes_by_hand(rows, np.ones((1, 40))) for rows in runs]
    for metric in ours:
        each = np.array(ours[metric]) - np.array(theirs[metric])
        low, high = np.quantile(each, [0.025, 0.975])
        assert (found[metric].low, found[metric].high) == pytest.approx((low, high), abs=1e-6), metric
        assert found[metric].difference == pytest.approx(whole[0][metric][0] - whole[1][metric][0], abs=1e-6)
    assert not {"fits", "agrees"} & set(a.numbers)  # unknown
    assert a.counted("true/changed") == sum(row["changed"] for row in runs[0])
    assert " points of “true/changed”" in found["true/changed"].sentence("a", "b")
    # a part of the pairs keeps their scenes
    assert a.part([0, 3]).scene_ids == (runs[0][0]["scene_id"], runs[0][3]["scene_id"])


def test_pairs_of_a_scene_that_agree_count_once_in_the_interval():
    random = np.random.default_rng(0)
    scenes = [str(n) for n in range(200)]
    true = [bool(each) for each in random.random(200) < 0.5]
    one = bootstrap.share(true, scenes)
    twice = bootstrap.share(true * 2, scenes * 2)  # each scene has two pairs of equal truth
    apart = bootstrap.share(true * 2, [*scenes, *(f"x{name}" for name in scenes)])
    assert (twice.low, twice.high) == (one.low, one.high)
    assert twice.high - twice.low > 1.3 * (apart.high - apart.low)
    half = 1.96 * np.sqrt(one.value * (1 - one.value) / 200)
    assert one.high - one.low == pytest.approx(2 * half, rel=0.1)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), min_size=1))
def test_an_interval_holds_the_share(rows):
    found = bootstrap.share([true for true, _ in rows], [scene for _, scene in rows])
    assert 0 <= found.low <= found.high <= 1
    assert found.number == len(rows)
    if len({scene for _, scene in rows}) == 1:
        assert found.low == pytest.approx(found.value) == found.high
