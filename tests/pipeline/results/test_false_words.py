"""Faults of captions, counted by loops."""

from statistics import mean

import pytest

from pipeline.results import false_words
from pipeline.results.false_words import PARTS, Faults
from pipeline.scoring.truth import FAULTS
from tests.recorded import groups, three_seeds

TOLD = Faults("rr", (["", "cs", "szo", "n"], ["a", "", "", "kmr"]), (["", "t"], ["t", "g"]))


def test_shares_by_a_loop():
    told = [letters for run in TOLD.changes for letters in run]
    for letter in FAULTS:
        assert TOLD.share(letter) == mean(1.0 if letter in letters else 0.0 for letters in told)
    assert (TOLD.true, TOLD.share("s"), TOLD.share("o")) == (3 / 8, 2 / 8, 1 / 8)
    assert TOLD.single == 2 / 5  # "n" and "a"; of "szo" two parts are wrong
    assert TOLD.invented == 2 / 4


def test_a_caption_counts_once_in_the_bars():
    by_hand = dict.fromkeys(PARTS, 0.0) | {"n": 1, "a": 1, "c": 1 / 2, "s": 1 / 2 + 1 / 2, "z": 1 / 2}
    by_hand |= {"k": 1 / 3, "m": 1 / 3, "r": 1 / 3}
    assert {part: TOLD.split(part) for part in PARTS} == pytest.approx({p: n / 8 for p, n in by_hand.items()})
    assert sum(TOLD.split(part) for part in PARTS) == pytest.approx(1 - TOLD.true)


def test_true_captions_have_no_fault():
    perfect = Faults("all", (["", ""],), ([],))
    assert (perfect.single, perfect.invented) == (None, None)
    assert false_words.row(perfect) == ["all", "100.0", *["0.0"] * 11, "–", "–"]


def test_faults_of_records(tmp_path):
    """rr's seeds are wrong about 2, 3 and 3 of 20 changes, in colour and shape."""
    found = false_words.of_group(groups(three_seeds(tmp_path))["rr"], "tabletop")
    assert found.name == "tabletop rr"
    assert found.share("c") == found.share("s") == pytest.approx(8 / 60)
    assert found.split("c") == pytest.approx(4 / 60)
    assert found.single == 0
    assert found.invented == pytest.approx((2 + 2 + 3) / 60)
