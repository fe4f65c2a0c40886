"""Free English against references, and the free reader against the strict parser of tabletop's grammar."""

from dataclasses import replace

import pytest

from pipeline.datasets.schema import Pair
from pipeline.free_english.judging import FREE, agreement, judge_free
from pipeline.judging.strict import agrees, judge
from pipeline.negatives.generation import generate
from pipeline.scoring.results import GEOMETRIC, correctness
from tests.pipeline.free_english.scenes import SCENES
from tests.tabletop_pairs import draw_pairs

TURNED_GREEN = (
    "the small red metal ball turned green",
    "the tiny red shiny sphere that is behind the cube became green",
)
GREEN = Pair("0.png", "0", "test", "a", "b", TURNED_GREEN, "color")
STILL = replace(GREEN, captions=("there is no change",), change_type="none")


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("The little red ball has been painted green. Everything else is the same.", None),
        ("A shiny red sphere behind the box is now a green sphere.", None),
        ("The color of the red ball changed from red to green.", None),
        ("The red ball is green in the second image.", None),
        ("The red ball turned green; it is blue in the second image.", "v"),
        ("The little blue ball has been painted green.", "c"),
        ("The red ball was painted blue.", "v"),
        ("The ball changed from blue to green.", "v"),
        ("The red ball disappeared.", "k"),
        ("The red ball turned matte.", "k"),
        ("Nothing changed.", "n"),
        ("The red ball blushed.", "g"),
        ("The red ball changed its color.", "a"),
    ],
)
def test_texts_are_compared_with_the_references(text, faults):
    verdict = agreement(text, GREEN)
    assert (verdict.true, verdict.faults) == (faults is None, faults or "")


def test_scores_may_use_the_free_reader():
    texts = {"0.png": "The ball was painted green.", "color.png": "A yellow cylinder became turquoise."}
    pairs = [GREEN, replace(SCENES["color"], pair_id="color.png")]
    found = correctness(texts, pairs, GEOMETRIC, reader=FREE)
    assert found.pairs["0.png"]["agrees"]
    assert found.pairs["color.png"]["true"]
    strict = correctness(texts, pairs, GEOMETRIC)
    assert strict.pairs["color.png"]["true"] is False


def test_an_unchanged_pair():
    assert agreement("I can't see any difference.", STILL).true
    assert not agreement("The ball turned green.", STILL).true
    assert agreement("x", replace(GREEN, captions=("the ball looks nice",), change_type=None)) is None


def test_references_agree_as_with_the_strict_reader():
    for pair in (replace(own, scene=None, changed_object=None) for own in draw_pairs(seed=3, count=60)):
        for caption in pair.captions:
            agreed = agreement(caption, pair).true
            assert agreed == agrees(caption, pair) or not pair.changed
            assert agreed, caption


@pytest.fixture(scope="module")
def pairs():
    return draw_pairs(seed=23, count=120)


def test_every_reference_is_true(pairs):
    for pair in pairs:
        for caption in pair.captions:
            assert judge_free(caption, pair) == judge(caption, pair), caption


def test_negatives_are_false_with_the_same_faults(pairs):
    own = {pair.pair_id: pair for pair in pairs}
    negatives = [
        (each.pair_id, one.caption) for each in generate("geometric", pairs, seed=4) for one in each.negatives
    ]
    assert len(negatives) == 6 * len(pairs)
    for pair_id, caption in negatives:
        free, strict = judge_free(caption, own[pair_id]), judge(caption, own[pair_id])
        assert (free.true, free.fits, free.faults) == (False, False, strict.faults), caption


def test_captions_of_other_scenes_have_the_same_faults(pairs):
    changed = [pair for pair in pairs if pair.changed]
    for pair, other in zip(changed, changed[5:], strict=False):
        for caption in pair.captions:
            free, strict = judge_free(caption, other), judge(caption, other)
            assert (free.true, free.fits, free.faults) == (strict.true, strict.fits, strict.faults), caption
