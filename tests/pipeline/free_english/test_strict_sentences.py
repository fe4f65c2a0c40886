"""Sentences of tabletop's own grammar: the free reader and the strict parser give the same verdict."""

import pytest

from pipeline.free_english.truth import judge_free
from pipeline.negatives.generation import generate
from pipeline.scoring.truth import judge
from tests.tabletop_pairs import draw_pairs


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
