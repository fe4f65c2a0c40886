"""Rewards of captions: truth, partial credit, false alarms, agreement and CIDEr-D."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.datasets.schema import NO_CHANGE, of_split
from pipeline.io.errors import InputError
from pipeline.scoring.metrics import CiderD, counted
from pipeline.scoring.tokenizer import plain
from pipeline.training.reinforce import reward_of
from tests.tabletop_pairs import draw_pairs

SETTINGS = {"reward": "truth", "partial_credit": 0.0, "false_alarm": 1.0}
PAIRS = draw_pairs(3, 20)
CHANGED = [pair for pair in PAIRS if pair.change_type != NO_CHANGE]
UNCHANGED = [pair for pair in PAIRS if pair.change_type == NO_CHANGE]


def rewards(pairs, captions, **settings):
    return reward_of(SETTINGS | settings, pairs, plain)(pairs, captions)


def test_references_are_true_and_missed_changes_are_not():
    assert rewards(CHANGED, [pair.captions[0] for pair in CHANGED]) == [1.0] * 20
    assert rewards(UNCHANGED, [pair.captions[0] for pair in UNCHANGED]) == [1.0] * 20
    assert rewards(CHANGED, ["there is no change"] * 20) == [0.0] * 20


def test_the_cost_of_a_false_alarm():
    reported = [pair.captions[0] for pair in CHANGED]
    assert rewards(UNCHANGED, reported) == [0.0] * 20
    assert rewards(UNCHANGED, reported, false_alarm=0.0) == [1.0] * 20


def test_partial_credit_depends_on_the_number_of_faults():
    pair = next(pair for pair in CHANGED if pair.change_type == "color")
    before, after = pair.changed_object.before, pair.changed_object.after
    wrong = next(color for color in ("red", "blue", "green") if color not in (before.color, after.color))
    one = f"the {before.size} {before.color} {before.shape} changed to {wrong}"
    silent, none = "there is no change", "of no grammar"
    assert rewards([pair] * 3, [one, silent, none], partial_credit=0.5) == [0.5] * 3
    two = f"the {before.size} {wrong} {before.shape} changed to {wrong}"
    assert rewards([pair], [two], partial_credit=0.5)[0] <= 0.25
    assert rewards([pair] * 2, [one, two]) == [0.0, 0.0]


def test_agreement_is_with_the_references(prepared):
    pairs = of_split(prepared.pairs, "train")
    assert rewards(pairs, [pair.captions[0] for pair in pairs], reward="agrees") == [1.0] * len(pairs)
    assert not any(rewards(pairs, ["a dog barks"] * len(pairs), reward="agrees"))


@pytest.mark.parametrize("seed", [0, 1])
def test_cider_d_equals_the_score(seed):
    random = np.random.default_rng(seed)
    captions = [pair.captions[0] for pair in random.permutation(np.array(PAIRS, dtype=object))]
    captions[:2] = "words that nobody wrote", ""
    references = {pair.pair_id: [text.lower() for text in pair.captions] for pair in PAIRS}
    by_id = dict(zip(references, captions, strict=True))
    cider = CiderD(by_id, references, counted(by_id, references))
    expected = cider.scores(range(len(references)))
    np.testing.assert_allclose(rewards(PAIRS, captions, reward="CIDEr-D"), expected, rtol=1e-12, atol=1e-12)
    assert len(set(expected.tolist())) > 10


def test_truth_without_scenes_is_refused():
    with pytest.raises(InputError, match=rf"reinforce\.reward.*{CHANGED[0].pair_id}"):
        rewards([replace(CHANGED[0], scene=None)], ["a dog"])
