"""Claims of texts, and texts that are unreadable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.free_english.judging import judge_free, judged_claims
from pipeline.free_english.reader import read
from pipeline.free_english.tokens import lexicon
from pipeline.judging.claims import Claim
from tests.pipeline.free_english.scenes import SCENES

WORDS = sorted({word for phrase in lexicon() for word in phrase})


def kinds(text):
    return [claim.kind for claim in read(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "The little green cube that used to be in front of the small red cylinder has changed position.",
            ["move"],
        ),
        ("A yellow cylinder became turquoise.", ["becomes"]),
        ("A tiny gray object was newly placed on the table.", ["add"]),
        ("The small golden ball is now a red metallic ball.", ["state"]),
        (
            "In the second image, the purple block has turned yellow; everything else looks the same.",
            ["becomes", "rest"],
        ),
        ("Both scenes are the same; nothing was altered.", ["none", "none"]),
        ("There are no visible differences.", ["none"]),
        ("I don't see any change.", ["none"]),
        ("The cube was yellow but is now red.", ["becomes"]),
        ("In the first image there is a red cube. In the second there is none.", ["exists", "unreadable"]),
        ("The red cube is in the first image but not in the second.", ["drop"]),
        ("The cube can now be found behind the ball.", ["sit"]),
        ("The red cube can be seen behind the ball.", ["exists"]),
        ("Let me compare both images carefully.", []),
        ("", []),
    ],
)
def test_kinds_of_claims(text, expected):
    assert kinds(text) == expected


def test_a_claim_has_object_old_and_new_value():
    (claim,) = read("The small matte ball's color went from gold to crimson.")
    assert dict(claim.subject.look) == {"size": "small", "material": "rubber", "shape": "sphere"}
    assert (claim.old, claim.new, claim.aspect) == ((("color", "yellow"),), (("color", "red"),), "color")


def test_a_claim_has_places():
    (claim,) = read("The red can moved from the left of the cube to the back, closer to the blue ball.")
    assert [place.relation for place in claim.source] == ["left"]
    assert [place.relation for place in claim.target] == ["toward"]
    assert claim.directions == ("behind",)


@pytest.mark.parametrize(
    ("text", "rank", "side"),
    [
        ("The first of the cubes turned red.", 1, "left"),  # counted as one reads
        ("The second of the three cubes from the right turned red.", 2, "right"),
        ("The rightmost of the cubes turned red.", 1, "right"),
    ],
)
def test_objects_of_a_row_are_counted_from_a_side(text, rank, side):
    (claim,) = read(text)
    (place,) = claim.subject.places
    assert (place.relation, place.rank, place.side) == ("rank", rank, side)


@pytest.mark.parametrize(
    "text",
    [
        "The yellow cylinder or the cube turned cyan.",
        "Did the yellow cylinder turn cyan?",
        "The yellow cylinder snorted.",
        "The yellow cylinder turned ultraviolet.",
        "If the yellow cylinder turned cyan.",
        "The second cube turned cyan.",
        "It turned cyan.",
        "Der gelbe Zylinder ist jetzt cyan.",
        "yellow cylinder ↔ cyan",
        "??",
    ],
)
def test_unreadable_texts_are_not_correct(text):
    verdict = judge_free(text, SCENES["color"])
    assert (verdict.true, verdict.faults) == (False, "g")


def test_a_claim_without_the_new_value_fits_but_does_not_identify_the_change():
    verdict = judge_free("The yellow cylinder changed its color.", SCENES["color"])
    assert (verdict.true, verdict.fits, verdict.faults) == (False, True, "a")


def test_a_wrong_claim_is_quoted():
    text = "The yellow cylinder turned cyan. The gray ball disappeared."
    verdict = judge_free(text, SCENES["color"])
    assert verdict.wrong == ("the gray ball disappeared",)
    assert [each.verdict for each in judged_claims(text, SCENES["color"])] == ["correct", "wrong"]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("The small yellow cylinder turned cyan. There is no brown cube in either image.", ""),
        ("The small yellow cylinder turned cyan. No brown cube is present in both images.", ""),
        ("The small yellow cylinder turned cyan. There is no purple cube in either image.", "k"),
        ("The small yellow cylinder turned cyan. There is no yellow cylinder in either image.", "k"),
    ],
)
def test_an_object_that_is_in_neither_image_was_not_removed(text, faults):
    verdict = judge_free(text, SCENES["color"])
    assert (verdict.true, verdict.faults) == (not faults, faults)


@pytest.mark.parametrize(
    "text",
    [
        "Only the purple ball is left.",
        "Just one cube remains.",
        "There is only a purple ball.",
        "The second image contains only the purple ball.",
    ],
)
def test_a_claim_that_no_other_objects_exist_is_not_judged(text):
    """Several objects are left in this scene, so the claim is false."""
    verdict = judge_free(f"The large blue cylinder was removed. {text}", SCENES["drop"])
    assert (verdict.true, verdict.faults) == (False, "g")
    assert judge_free("The large blue cylinder was removed. The purple ball is left.", SCENES["drop"]).true


@pytest.mark.parametrize(
    "text",
    [
        "The only difference is the camera angle.",
        "The only difference between the two images is the camera angle.",
        "Only the camera angle has changed.",
        "The only change is a slight shift in the camera position.",
        "The only thing that changed is the viewpoint.",
        "The only thing that changed is the perspective from which the scene is viewed.",
        "The images appear to be the same scene viewed from a different angle, with no changes to the items.",
    ],
)
def test_only_the_view_changed(text):
    assert judge_free(text, SCENES["none"]).true
    assert not judge_free(text, SCENES["color"]).true
    assert judge_free(
        "The small yellow cylinder turned cyan. The only other change is the light.", SCENES["color"]
    ).true


@pytest.mark.parametrize(
    "text",
    [
        "The camera angle has changed.",
        "The camera angle is not the only difference.",
        "The camera is not the only thing that changed.",
        "The only difference is not the camera angle.",
        "Only the camera angle is the same.",
        "Only the camera angle has not changed.",
        "The viewpoint is the only constant.",
    ],
)
def test_other_sentences_about_the_view_do_not_say_that_nothing_changed(text):
    assert not judge_free(text, SCENES["none"]).true


@given(st.text() | st.lists(st.sampled_from([*WORDS, ",", ".", "'s"]), max_size=25).map(" ".join))
def test_any_text_is_read_the_same_way_twice(text):
    found = read(text)
    assert found == read(text)
    assert all(isinstance(claim, Claim) for claim in found)
    for scene in SCENES.values():
        judge_free(text, scene)


@given(
    st.lists(st.sampled_from(["not", "no", "nothing", "never", "neither"]), min_size=1, max_size=1),
    st.integers(0, 6),
)
def test_a_negation_in_a_true_sentence_never_leaves_it_true(negation, at):
    words = ["the", "small", "yellow", "cylinder", "has", "turned", "cyan"]
    text = " ".join([*words[:at], *negation, *words[at:]])
    verdict = judge_free(text, SCENES["color"])
    assert not verdict.true, text
