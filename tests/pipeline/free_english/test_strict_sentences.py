"""Sentences of tabletop's own grammar: the free reader and the strict parser give the same verdict."""

from pipeline.free_english.truth import judge_free
from pipeline.negatives.generation import generate
from pipeline.scoring.truth import judge
from tests.tabletop_pairs import draw_pairs


def test_true_and_false_sentences_have_the_same_verdict():
    """References, negatives, and captions of other scenes."""
    pairs = draw_pairs(seed=23, count=120)
    own = {pair.pair_id: pair for pair in pairs}
    changed = [pair for pair in pairs if pair.changed]
    given = [(pair, caption) for pair in pairs for caption in pair.captions]
    given += [
        (other, text) for pair, other in zip(changed, changed[5:], strict=False) for text in pair.captions
    ]
    negatives = list(generate("geometric", pairs, seed=4))
    given += [(own[each.pair_id], negative.caption) for each in negatives for negative in each.negatives]
    for pair, caption in given:
        free, strict = judge_free(caption, pair), judge(caption, pair)
        assert free is not None
        assert strict is not None
        assert (free.true, free.fits, free.faults) == (strict.true, strict.fits, strict.faults), caption
