"""Faults of captions, counted by loops."""

from statistics import mean

import pytest

from pipeline.judging.verdicts import FAULTS
from pipeline.results import false_words
from pipeline.results.false_words import PARTS, Faults
from tests.recorded import groups, three_seeds

RR = Faults("rr", ["", "cs", "szo", "n", "a", "", "", "kmr"], ["", "t", "t", "g"])


def test_shares_by_a_loop():
    captions = RR.changed
    for letter in FAULTS:
        assert RR.share(letter) == mean(1.0 if letter in letters else 0.0 for letters in captions)
    assert (RR.true, RR.share("s"), RR.share("o")) == (3 / 8, 2 / 8, 1 / 8)
    assert RR.single == 2 / 5  # "n" and "a"; of "szo" two parts are wrong
    assert RR.invented == 2 / 4


def test_a_caption_counts_once_in_the_bars():
    by_hand = dict.fromkeys(PARTS, 0.0) | {"n": 1, "a": 1, "c": 1 / 2, "s": 1 / 2 + 1 / 2, "z": 1 / 2}
    by_hand |= {"k": 1 / 3, "m": 1 / 3, "r": 1 / 3}
    assert {part: RR.split(part) for part in PARTS} == pytest.approx({p: n / 8 for p, n in by_hand.items()})
    assert sum(RR.split(part) for part in PARTS) == pytest.approx(1 - RR.true)


def test_true_captions_have_no_fault():
    perfect = Faults("all", ["", ""], [])
    assert (perfect.single, perfect.invented) == (None, None)
    assert false_words.row(perfect) == ["all", "100.0", *["0.0"] * 11, "–", "–"]


def test_faults_of_records(tmp_path):
    """rr's seeds are wrong about 2, 3 and 3 of 20 changes, in colour and shape."""
    faults = false_words.of_group(groups(three_seeds(tmp_path))["rr"], "tabletop")
    assert faults.name == "tabletop rr"
    assert faults.share("c") == faults.share("s") == pytest.approx(8 / 60)
    assert faults.split("c") == pytest.approx(4 / 60)
    assert faults.single == 0
    assert faults.invented == pytest.approx((2 + 2 + 3) / 60)
