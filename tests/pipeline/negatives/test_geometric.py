"""Negatives of coloured solids: none is true of its pair. The TF-IDF index against loops over its formula."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from pipeline.negatives.generation import generate
from pipeline.negatives.geometric import Index
from pipeline.tabletop.words import MEANINGS, NO_CHANGE
from tests import tabletop_parser
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
    kind, looks = tabletop_parser.parsed(caption)
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


def test_each_kind_gives_two_and_a_change_is_denied_once(pairs):
    own = {pair.pair_id: pair for pair in pairs}
    for each in generate("geometric", pairs, seed=1):
        kinds = Counter(negative.kind for negative in each.negatives)
        denials = [n for n in each.negatives if n.caption in NO_CHANGE]
        if own[each.pair_id].change_type == "none":
            assert kinds == {"retrieve": 6}
            assert not denials
        else:
            assert kinds["retrieve"] == 2
            assert kinds["replace"] >= 2
            assert len(denials) == 1


def test_two_negatives_of_an_unchanged_pair_are_of_its_scene(pairs):
    change = {pair.scene_id: pair.captions for pair in pairs if pair.change_type != "none"}
    for each in generate("geometric", pairs, seed=1):
        if each.pair_id.endswith("_n"):
            own = change[each.pair_id.removesuffix(".png_n")]
            assert {negative.caption for negative in each.negatives[:2]} <= set(own)


def test_captions_of_other_pairs_are_of_the_same_split(pairs):
    """Otherwise training would see captions of validation pairs."""
    captions = {
        split: {text for pair in pairs if pair.split == split for text in pair.captions}
        for split in ("train", "val")
    }
    for each in generate("geometric", pairs, seed=1):
        taken = {negative.caption for negative in each.negatives if negative.kind == "retrieve"}
        assert taken <= captions[each.split]


def test_the_landmark_is_never_replaced(pairs):
    for each in generate("geometric", pairs, seed=1):
        for negative in each.negatives:
            if negative.kind == "replace" and " that is " in negative.caption:
                tail = negative.caption.split(" that is ")[1].split(" ")[:-1]
                assert any(
                    caption.split(" that is ")[-1].split(" ")[:-1] == tail for caption in each.captions
                )


def test_a_split_with_too_few_captions_is_refused():
    pair = Pair("7.png", "7", "train", "a", "b", ("the thing has been moved",), change_type="move")
    with pytest.raises(InputError, match=r"only 0 of 6 .* pair 7\.png; give the split train more pairs"):
        list(generate("geometric", [pair], seed=1))


SENTENCE = st.lists(
    st.sampled_from(["the", "red", "ball", "cube", "is", "gone"]), min_size=1, max_size=6
).map(" ".join)


def vector(text, documents):
    """Return count × (1 + ln((1 + n) / (1 + df))) of every word, as a vector of length 1."""
    words = sorted({word for other in [*documents, text] for word in other.split()})
    found = []
    for word in words:
        df = sum(word in other.split() for other in documents)
        found.append(text.split().count(word) * (1 + math.log((1 + len(documents)) / (1 + df))))
    return dict(zip(words, np.array(found) / np.linalg.norm(found), strict=True))


@settings(max_examples=50)
@given(st.lists(SENTENCE, min_size=1, max_size=8), SENTENCE)
@example(["gone the red ball", "ball the red gone"], "the red ball gone")
def test_captions_are_ranked_by_cosine_and_then_by_their_text(texts, query):
    documents = sorted(set(texts))
    own = vector(query, documents)
    cosine = {
        text: sum(value * own[word] for word, value in vector(text, documents).items() if word in own)
        for text in documents
    }
    expected = sorted(documents, key=lambda text: (-round(cosine[text], 9), text))
    assert list(Index(texts).ranked(query.split())) == expected


def test_a_rare_word_weighs_more_than_a_common_one():
    index = Index(["the ball is gone", "the cube is gone", "the cube is red"])
    weights = index.weights(["the", "red", "cube", "that"])
    assert weights["that"] > weights["red"] > weights["cube"] > weights["the"] == 1.0
    assert index.weights(["red", "red"])["red"] == 2 * weights["red"]
