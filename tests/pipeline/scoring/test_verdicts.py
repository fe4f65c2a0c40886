"""Verdicts of captions on scenes written by hand: what is true, which words are wrong, all that is false."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.schema import Pair, Placed, SceneFacts
from pipeline.io.errors import InputError
from pipeline.scoring.truth import Verdict, judge
from pipeline.tabletop import words

TRUE = Verdict(true=True, fits=True)
CUBE = Placed(0, "large", "red", "metal", "cube", 0.0, 0.0)
BALL = Placed(1, "small", "blue", "rubber", "sphere", 2.0, 0.0)
TWIN = Placed(2, "large", "red", "rubber", "cube", -2.0, 0.1)
TABLE = (CUBE, BALL, TWIN)
FROM_BELOW = (0.0, -10.0, 5.0)  # x grows to the right, y away
FROM_ABOVE = (0.0, 10.0, 5.0)  # the other way round


def pair_of(kind: str, after: tuple[Placed, ...], changed: int | None, before=TABLE) -> Pair:
    scene = SceneFacts(before, after, FROM_BELOW, FROM_ABOVE, changed)
    return Pair("7.png", "7", "test", "a.png", "b.png", ("x",), kind, scene=scene)


DROPPED = pair_of("drop", (BALL, TWIN), 0)
ADDED = pair_of("add", TABLE, 1, before=(CUBE, TWIN))
GREEN = pair_of("color", (replace(CUBE, color="green"), BALL, TWIN), 0)
MATTE = pair_of("texture", (CUBE, replace(BALL, material="metal"), TWIN), 1)
STILL = pair_of("none", TABLE, None)


@pytest.mark.parametrize(
    ("caption", "pair", "wrong"),
    [
        ("the metal cube has disappeared", DROPPED, None),
        (" The  METAL cube\u2028is gone .", DROPPED, None),
        (
            "the red cube that is left of the ball is missing",
            DROPPED,
            "the red cube that is left of the ball",
        ),
        ("the red cube that is right of the matte cube is missing", DROPPED, None),
        ("the shiny block that is to the left of the thing is gone", DROPPED, None),  # of the ball it is
        ("the cube is missing", DROPPED, "the cube"),
        ("the tiny metal ball is missing", DROPPED, "tiny"),
        ("the metal ball is missing", DROPPED, "ball"),
        ("the metal thing that is right of the ball is gone", DROPPED, "that is right of the ball"),
        (
            "the metal cube that is behind the ball is gone",
            DROPPED,
            "that is behind the ball",
        ),  # level with it
        ("the metal cube that is left of the cylinder is gone", DROPPED, "that is left of the cylinder"),
        ("the metal cube has been moved", DROPPED, "has been moved"),
        ("the metal cube turned green", DROPPED, "turned green"),
        ("there is no change", DROPPED, "there is no change"),
        ("the red metal cube", DROPPED, "the red metal cube"),
        ("metal cube is gone", DROPPED, "metal cube is gone"),
        ("the metal red cube is gone", DROPPED, "the metal red cube is gone"),
        ("the metal cube is gone is gone", DROPPED, "the metal cube is gone is gone"),
        ("the metal cubes is gone", DROPPED, "the metal cubes is gone"),
        ("the metal cube that is behind is gone", DROPPED, "the metal cube that is behind is gone"),
        ("", DROPPED, ""),
        ("the ball has been added", ADDED, None),
        ("the ball that is left of the metal cube has appeared", ADDED, None),  # the after picture's camera
        (
            "the ball that is right of the metal cube has appeared",
            ADDED,
            "that is right of the metal cube",
        ),
        ("the ball has disappeared", ADDED, "has disappeared"),
        ("the shiny cube turned green", GREEN, None),
        ("the shiny cube changed to blue", GREEN, "blue"),
        ("the red metal cube became red", GREEN, "became red"),  # which of both words, must be clear
        ("the green metal cube became green", GREEN, "green"),  # it was not yet
        ("the shiny cube turned rubber", GREEN, "turned rubber"),
        ("the ball became shiny", MATTE, None),
        ("the ball became metallic", MATTE, None),
        ("the ball became matte", MATTE, "matte"),
        ("the ball changed to metal", MATTE, "the ball changed to metal"),  # the grammar has no such
        ("there is no change", STILL, None),
        ("There is no change.", STILL, None),
        ("the ball has been moved", STILL, "has been moved"),
        ("a ball", STILL, "a ball"),
    ],
)
def test_a_verdict(caption: str, pair: Pair, wrong: str | None) -> None:
    verdict = judge(caption, pair)
    assert verdict is not None
    assert (verdict.true, verdict.wrong[:1]) == (wrong is None, () if wrong is None else (wrong,))
    alone = wrong is not None and wrong.startswith("the ") and wrong != caption
    assert verdict.fits == (verdict.true or alone)


@pytest.mark.parametrize(
    ("caption", "pair", "faults"),
    [
        ("the metal cube has disappeared", DROPPED, ""),
        ("the cube is missing", DROPPED, "a"),
        ("the tiny blue shiny ball has been moved", DROPPED, "kcsz"),  # no ball here is shiny
        ("the small blue ball is gone", DROPPED, "cszo"),  # all that is wrong, not the first word alone
        ("the metal ball is missing", DROPPED, "s"),
        ("the red cube that is right of the cylinder is missing", DROPPED, "r"),
        ("the red cube that is left of the metal cube is missing", DROPPED, "ro"),  # the other red one is
        ("the shiny cube changed to blue", GREEN, "v"),
        ("the rubber cube turned matte", GREEN, "kmo"),  # of another kind no new value is asked
        ("there is no change", DROPPED, "n"),
        ("the tiny thing is the same as before, nothing was modified", DROPPED, "n"),
        ("the red metal cube", DROPPED, "g"),
        ("the ball has been moved", STILL, "t"),
        ("a ball", STILL, "g"),
        ("there is no change", STILL, ""),
    ],
)
def test_all_that_is_false_is_told(caption: str, pair: Pair, faults: str) -> None:
    verdict = judge(caption, pair)
    assert verdict is not None
    assert verdict.faults == faults
    assert verdict.true == (faults == "")


@pytest.mark.parametrize(
    ("caption", "pair", "wrong"),
    [
        (
            "the tiny blue shiny ball has been moved",
            DROPPED,
            ("tiny", "blue", "ball", "has been moved"),
        ),
        (
            "the rubber cube that is left of the cylinder turned blue",
            GREEN,
            ("rubber", "that is left of the cylinder", "blue"),
        ),
    ],
)
def test_every_false_phrase_is_listed(caption: str, pair: Pair, wrong: tuple[str, ...]) -> None:
    verdict = judge(caption, pair)
    assert verdict is not None
    assert verdict.wrong == wrong


def test_the_phrases_say_what_no_change_is() -> None:
    assert judge("I see no difference", STILL) == TRUE
    said = "I see no difference"
    assert judge(said, STILL, ["the same"]) == Verdict(False, False, (said,), "g")
    assert judge("I see no difference", DROPPED, ["no difference"]).true is False  # type: ignore[union-attr]


def test_where_the_scene_is_unknown_nothing_is_judged() -> None:
    assert judge("the metal cube is gone", replace(DROPPED, scene=None)) is None
    assert judge("the metal cube is gone", replace(DROPPED, change_type=None)) is None


def test_a_scene_without_the_thing_that_changes_is_refused() -> None:
    with pytest.raises(InputError, match=r"^pair 7\.png: object 0, .*wrong images; run `dvc repro prepare`"):
        judge("the cube is gone", replace(DROPPED, change_type="move"))


VOCABULARY = sorted(
    {word for own in words.MEANINGS.values() for word in own}
    | words.NOUNS
    | {word for said in words.VERBS.values() for verb in said for word in verb.split()}
    | {"the", "that", "is", "right", "left", "of", "behind", "in", "front", "no", "change", "there"}
)
sentences = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(VOCABULARY), max_size=12).map(" ".join),
    st.builds(
        "the {} {} {}".format,
        st.sampled_from(VOCABULARY),
        st.sampled_from(sorted(words.NOUNS)),
        st.one_of(
            st.sampled_from([f"{v}" for own in words.VERBS.values() for v in own]), st.text(max_size=9)
        ),
    ),
)


@given(sentences, st.sampled_from([DROPPED, ADDED, GREEN, MATTE, STILL]))
def test_any_text_is_judged_and_only_sentences_are_true(text: str, pair: Pair) -> None:
    verdict = judge(text, pair)
    assert verdict is not None
    assert verdict.fits or not verdict.true
    assert (not verdict.wrong) == (verdict.faults == "") == verdict.true
    if verdict.true and pair is not STILL:
        spoken = text.lower().rstrip(" .\n").split()
        assert spoken[0] == "the"
        assert set(spoken) <= set(VOCABULARY) | {"right", "side", "on", "to"}
    if verdict.true and pair is STILL:
        assert any(said in " ".join(text.lower().split()) for said in words.NO_CHANGE)
