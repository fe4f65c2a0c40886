"""Negatives of coloured solids: none is true of its pair, by the facts of the rendered scenes."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from pipeline.negatives.generation import generate
from pipeline.scoring import accuracy
from pipeline.tabletop.words import MEANINGS, NO_CHANGE
from tests.tabletop_pairs import draw_pairs


@pytest.fixture(scope="module")
def pairs():
    return draw_pairs(seed=1)


def is_true(caption, pair):
    """Return True if the caption has the pair's kind of change, and only correct attributes and new values.

    The landmark is not checked. So more captions count as true than are true.
    """
    if pair.change_type == "none":
        return caption in NO_CHANGE
    look = pair.changed_object.before or pair.changed_object.after
    kind, looks = accuracy.read(caption)
    assert caption in NO_CHANGE or kind, caption  # each is a sentence of the grammar
    named = all(not values or values == {getattr(look, name)} for name, values in looks.items())
    new = {"color": "color", "texture": "material"}.get(pair.change_type)
    if kind != pair.change_type or not named:
        return False
    return new is None or MEANINGS[new][caption.split()[-1]] == getattr(pair.changed_object.after, new)


def test_negatives_are_new_and_for_every_training_and_validation_pair(pairs):
    made = list(generate("geometric", pairs, seed=1))
    assert [each.pair_id for each in made] == [
        pair.pair_id for split in ("train", "val") for pair in pairs if pair.split == split
    ]
    assert all(len({n.caption for n in each.negatives} - set(each.captions)) == 6 for each in made)
    assert all(is_true(text, pair) for pair in pairs for text in pair.captions)
    assert made == list(generate("geometric", pairs, seed=1))
    assert made != list(generate("geometric", pairs, seed=2))


@settings(max_examples=5)
@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.booleans())
def test_no_negative_is_true_of_its_pair(scene_seed, seed, labelled):
    """`labelled`: the dataset states the kinds of change."""
    own = draw_pairs(scene_seed, count=12)
    by_id = {pair.pair_id: pair for pair in own}
    given = own if labelled else [replace(pair, change_type=None) for pair in own]
    for each in generate("geometric", given, seed):
        texts = [negative.caption for negative in each.negatives]
        assert not any(is_true(text, by_id[each.pair_id]) for text in texts)
        assert sum(text in NO_CHANGE for text in texts) == (by_id[each.pair_id].change_type != "none")


def test_kinds_of_negatives(pairs):
    """Two negatives of an unchanged pair are captions of its scene's change. Landmarks are never replaced."""
    own = {pair.pair_id: pair for pair in pairs}
    change = {pair.scene_id: pair.captions for pair in pairs if pair.change_type != "none"}
    for each in generate("geometric", pairs, seed=1):
        pair, kinds = own[each.pair_id], Counter(negative.kind for negative in each.negatives)
        if pair.change_type == "none":
            assert kinds == {"retrieve": 6}
            assert {negative.caption for negative in each.negatives[:2]} <= set(change[pair.scene_id])
        else:
            assert kinds["retrieve"] == 2
            assert kinds["replace"] >= 2
        landmarks = {landmark(caption) for caption in each.captions}
        assert all(landmark(n.caption) in landmarks for n in each.negatives if n.kind == "replace")


def landmark(caption):
    """Return the words between "that is" and the last word, which may be a new value."""
    return caption.partition(" that is ")[2].rpartition(" ")[0]


def test_a_split_with_too_few_captions_is_refused():
    pair = Pair("7.png", "7", "train", "a", "b", ("the thing has been moved",), change_type="move")
    with pytest.raises(InputError, match=r"only 0 of 6 .* pair 7\.png; give the split train more pairs"):
        list(generate("geometric", [pair], seed=1))
