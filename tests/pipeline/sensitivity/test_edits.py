"""Edited captions: every wrong one is false by the scene, every right one is true, and one thing differs."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.datasets.schema import Pair
from pipeline.free_english.judging import judge_free
from pipeline.io.errors import InputError
from pipeline.judging.no_change import says_no_change
from pipeline.judging.strict import judge
from pipeline.sensitivity import text_edits
from pipeline.sensitivity.edited_captions import of_pairs
from pipeline.sensitivity.grammar_edits import DENIED, EDITS, NOT_DENIED, Said
from pipeline.tabletop.words import NO_CHANGE, VERB_PHRASES
from tests.tabletop_pairs import draw_pairs

FORMS = {"British spelling", "word order", "active voice", "paraphrase", "introduction"}
FORMS |= {"nothing else has changed"}  # true, but not in the grammar


@pytest.fixture(scope="module")
def pairs():
    """Pairs of 40 scenes."""
    return draw_pairs(3)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["others", "itself"]))
def test_truth_keeps_nothing_of_a_wrong_caption_and_all_of_a_right_one(seed, against):
    captions = of_pairs(draw_pairs(seed, 5), 5, against)
    for case in captions.cases:
        right, edited = (captions.scored[key] for key in (case.right, case.edited))
        assert judge_free(right.caption, right.pair).true
        assert judge(right.caption, right.pair).true
        assert judge_free(edited.caption, edited.pair).true != case.is_wrong, (case.edit, edited.caption)
        if case.is_wrong or case.edit not in FORMS:
            assert judge(edited.caption, edited.pair).true != case.is_wrong, (case.edit, edited.caption)
        assert right.references == edited.references
        assert right.references == (right.caption,) or right.caption not in right.references
        assert (right.caption == edited.caption) == (case.edit == "same words")


def test_every_edit_is_made(pairs):
    captions = of_pairs(pairs, 60, "others")
    counts = Counter(case.edit for case in captions.cases)
    assert counts.keys() == {edit.name for edit in EDITS}
    assert len({case.kinds for case in captions.cases if case.edit == "kind of change"}) == 20
    assert captions.scenes == 40
    assert len({edit.name for edit in EDITS if edit.is_wrong}) >= 16


def test_a_caption_of_the_grammar_is_split_and_joined_again(pairs):
    for pair in pairs:
        for caption in pair.captions if pair.changed else ():
            said = Said.of(caption)
            assert (said.text, said.kind) == (caption, pair.change_type)
    assert Said.of("there is no change") is None


def test_every_verb_and_every_sentence_of_no_change_can_be_denied():
    for verb in VERB_PHRASES:
        assert any(f"{verb} ".startswith(f"{first} ") for first in DENIED), verb
    assert {*NOT_DENIED} == {*NO_CHANGE}
    assert not any(map(says_no_change, NOT_DENIED.values()))


def test_the_same_pairs_give_the_same_captions(pairs):
    first, second = (of_pairs(each, 20, "others") for each in (pairs, [*pairs]))
    assert first == second
    assert first.scenes == 20


def test_without_scenes_the_grammar_is_edited_where_no_scene_is_needed(pairs):
    without = [replace(pair, scene=None) for pair in pairs]
    edits = {case.edit for case in of_pairs(without, 60, "others").cases}
    assert edits == {edit.name for edit in EDITS if not edit.needs_scene}


def texts(*lists):
    return [Pair(str(n), str(n), "test", "a", "b", tuple(own)) for n, own in enumerate(lists)]


def test_real_captions_are_edited_word_by_word():
    captions = of_pairs(texts(["The red car on the left is gone", "two people have left"]), 9, "itself")
    said = {case.edit: captions.scored[case.edited].caption for case in captions.cases}
    assert said["kind of change"] == "The red car on the left is there"
    assert said["direction"] == "The red car on the right is gone"
    assert said["colour"] == "The blue car on the left is gone"
    assert said["another object"] == "The red person on the left is gone"
    assert said["number"] == "three people have left"
    assert said["change denied"] == "The red car on the left is not gone"
    assert said["capital and full stop"] == "The red car on the left is gone."
    assert said["another reference"] == "two people have left"
    assert "caption of another pair" not in said


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_can_be_edited(caption, other):
    for edit in text_edits.EDITS:
        text = edit.make(caption, (caption, other), "elsewhere")
        assert text is None or isinstance(text, str)


@pytest.mark.parametrize("table", ["KIND", "DIRECTION", "COLOR", "OBJECT", "NUMBER", "SYNONYM", "BRITISH"])
def test_a_table_of_words_changes_each_word(table):
    words = getattr(text_edits, table)
    make = text_edits.replaced(words)
    for word, other in words.items():
        assert make(f"x {word} y", (), "") == f"x {other} y"
        assert " " in word or make(f"x{word}y", (), "") is None


def test_pairs_that_cannot_be_edited_are_refused():
    with pytest.raises(InputError, match="several references"):
        of_pairs(texts(["a car is gone"]), 9, "others")
    with pytest.raises(InputError, match="captions with words"):
        of_pairs(texts(["?"]), 9, "itself")


def test_scenes_are_drawn_and_not_the_first_ones(pairs):
    drawn = {case.scene_id for case in of_pairs(pairs, 10, "others").cases}
    assert len(drawn) == 10
    assert drawn != {str(n) for n in range(10)}
