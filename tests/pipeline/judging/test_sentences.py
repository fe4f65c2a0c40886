"""Contradictions, against all possible worlds; claims of sentences of the real datasets."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.datasets.schema import Pair
from pipeline.judging.references import contradicts, joint, of_pair
from pipeline.judging.strict import Sentence
from pipeline.tabletop.words import (
    ANY_SHAPE,
    COLORS,
    MATERIALS,
    MEANINGS,
    SHAPES,
    SIZES,
    VERBS,
    WORDS,
)
from tests import tabletop_parser

LOOKS = list(product(SIZES, COLORS, MATERIALS, SHAPES))
PAIR = Pair("0", "0", "train", "a", "b", ("",))


def _worlds():
    for look in LOOKS:
        yield from ((kind, look, None) for kind in ("add", "drop", "move"))
        yield from (("color", look, color) for color in COLORS if color != look[1])
        yield from (("texture", look, material) for material in MATERIALS if material != look[2])


WORLDS = list(_worlds())  # all combinations of kind of change, look of the object, and new value


def true_in(caption, world):
    kind, look, new = world
    said, looks = tabletop_parser.parsed(caption)
    named = all(not values or values == {value} for values, value in zip(looks.values(), look, strict=True))
    value = {"color": "color", "texture": "material"}.get(kind)
    fits = value is None or MEANINGS[value].get(caption.split()[-1]) == new
    return said == kind and named and fits


@st.composite
def captions(draw):
    kind = draw(st.sampled_from(sorted(VERBS)))
    said = [draw(st.sampled_from((None, *values))) for values in (SIZES, tuple(COLORS), MATERIALS)]
    noun = draw(st.sampled_from((*(word for shape in SHAPES for word in WORDS[shape]), *ANY_SHAPE)))
    subject = [draw(st.sampled_from(WORDS.get(value, (value,)))) for value in said if value]
    ending = draw(st.sampled_from(VERBS[kind]))
    values = {"color": tuple(COLORS), "material": (*WORDS["metal"], *WORDS["rubber"])}
    new = draw(st.sampled_from(values.get(kind, ("",))))
    landmark = draw(st.sampled_from(("", "that is behind the red cube", "left of the tiny metal thing")))
    return " ".join(["the", *subject, noun, *landmark.split(), *ending.split(), *new.split()])


def parsed(caption):
    return Sentence(tuple(caption.split()))


def claims(caption):
    return joint([parsed(caption).claim])


def stated(*references, pair=PAIR):
    return of_pair(pair, [parsed(caption).claim for caption in references])


@settings(max_examples=100)
@given(st.lists(captions(), min_size=1, max_size=3), captions())
def test_a_contradiction_is_false_in_every_world_of_the_references(references, candidate):
    truth = stated(*references)
    together = [world for world in WORLDS if all(true_in(caption, world) for caption in references)]
    if contradicts(claims(candidate), truth):
        assert not any(true_in(candidate, world) for world in together)


@settings(max_examples=100)
@given(captions(), captions())
def test_a_caption_that_is_no_contradiction_can_be_true(reference, candidate):
    """With a single reference, the test misses no contradiction."""
    both = [world for world in WORLDS if true_in(reference, world) and true_in(candidate, world)]
    possible = any(true_in(reference, world) for world in WORLDS)
    claims_a_world = any(true_in(candidate, world) for world in WORLDS)
    if possible and claims_a_world and not both:
        assert contradicts(claims(candidate), stated(reference))


@pytest.mark.parametrize(
    ("caption", "kind", "subject", "landmark", "value"),
    [
        ("the tiny matte ball has been added", "add", "tiny matte ball", "", None),
        ("the red block is in a different location", "move", "red block", "", None),
        ("the big thing is no longer there", "drop", "big thing", "", None),
        (
            "the small red cube right of the tiny object became blue",
            "color",
            "small red cube",
            "tiny object",
            "blue",
        ),
        ("the large cyan cylinder changed to shiny", "texture", "large cyan cylinder", "", "shiny"),
        (
            "the other large cylinder the same color as the large matte cylinder turned rubber",
            *("texture", "large cylinder", "large matte cylinder", "rubber"),
        ),
        (
            "the object behind the green cube and right of the big block in the after image has been added",
            *("add", "object", "green cube", None),
        ),
        ("there is no longer a tiny gray metal sphere", "drop", "tiny gray metal sphere", "", None),
        ("the scene is the same as before", "none", "", "", None),
        ("the ball", None, "ball", "", None),
    ],
)
def test_sentences_of_the_real_datasets(caption, kind, subject, landmark, value):
    sentence = parsed(caption)
    assert joint([sentence.claim]).kinds == (frozenset() if kind is None else {kind})
    assert " ".join(sentence.words[place] for place in sentence.subject) == subject
    assert " ".join(sentence.words[place] for place in sentence.landmark) == landmark
    assert (None if sentence.value is None else sentence.words[sentence.value]) == value


def test_the_datasets_kind_of_change_replaces_the_verbs():
    pair = Pair("0", "0", "train", "a", "b", ("",), change_type="move")
    assert stated("the ball", pair=pair).kinds == {"move"}
    assert stated("the ball is gone").kinds == {"drop"}


def test_a_subject_that_has_its_new_value_is_no_contradiction():
    truth = stated("the red ball is gone")
    assert contradicts(claims("the rubber ball became metal"), truth)
    assert not contradicts(claims("the rubber ball became matte"), truth)
